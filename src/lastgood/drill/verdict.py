"""Whether a job has come through: pass, fail or unknown, each with its reason. Pure.

Unknown is what did not test the job: a fault that was not caused, or that did not take effect, or of which nothing tells what
the job made of it. It is never taken for a pass, and a fail outweighs it.
"""

from collections.abc import Sequence

import msgspec

from lastgood.core.signals import signal_name
from lastgood.core.units import duration
from lastgood.drill.course import NEVER_CAME, Course, Struck
from lastgood.drill.fault import Answer, Consequence
from lastgood.drill.measure import Measured
from lastgood.drill.spec import COMMIT, SAVE, Kind


class Judged(msgspec.Struct, frozen=True):
    answer: Answer
    reason: str
    remedy: str = ""
    """What to change, where that is known; empty otherwise."""
    shows_resume: bool = False
    """A fault after which the job went on from a checkpoint."""


def judge_calm(calm: Course, *, is_handed_on: bool) -> Judged | None:
    """What the undisturbed run says already; None if it is worth to go on. `is_handed_on`: our launcher tells the command which
    checkpoint to take, so that this is known."""
    if calm.is_over_limit:
        return Judged(
            Answer.UNKNOWN,
            f"undisturbed, the job had not finished after {duration(calm.took_s)}",
            "give it less to do for a drill, or a longer --limit; or --quick --until recovered for a job that is long",
        )
    if calm.exit_code != 0:
        said = f": {calm.ended_as}" if calm.ended_as else ""
        return Judged(
            Answer.UNKNOWN, f"undisturbed, the job ends with {_code(calm.exit_code)}{said}", "mend that first"
        )
    if calm.has_checkpoints is False:
        return Judged(
            Answer.FAIL,
            "it never checkpoints: undisturbed it finished without one, so any failure costs all of its work",
            "have it save more often than once, or check --checkpoints if it does",
        )
    if not calm.has_steps and not (calm.has_checkpoints and is_handed_on):
        return Judged(
            Answer.UNKNOWN,
            "nothing tells which step it has reached, so that nothing would tell whether it resumes",
            _PATTERN,
        )
    return None


def judge_fault(struck: Struck, course: Course, *, is_last: bool) -> Judged:
    """One fault. `is_last`: no later one was caused, so that the end of the course is this one's doing."""
    name = struck.spec.name
    if struck.healing_problem:
        return Judged(Answer.UNKNOWN, f"it could not be undone: {struck.healing_problem}", "undo it by hand")
    if struck.injected is None:
        return Judged(Answer.UNKNOWN, f"not caused: {struck.why_not}", _earlier(struck))
    if struck.has_effect is None:
        return Judged(Answer.UNKNOWN, "whether it took effect cannot be told")
    if not struck.has_effect:
        return Judged(Answer.UNKNOWN, "it did not take effect", _EFFECTS.get(name, ""))
    assert struck.measured is not None
    if struck.consequence is Consequence.FALL_BACK:
        return _judge_fall_back(struck, struck.measured, course)
    if struck.refused:
        return Judged(Answer.FAIL, f"the next start refused: {struck.refused}")
    if struck.has_begun_again or struck.measured.resumed_from or struck.measured.restarted_s is not None:
        return _judge_resume(struck, struck.measured, course)
    return _judge_without_restart(struck, struck.measured, course, is_last=is_last)


def _judge_resume(struck: Struck, measured: Measured, course: Course) -> Judged:
    resumed, expected = measured.resumed_step, measured.checkpoint_step
    blur = measured.blur_steps
    if resumed is None:
        return _judge_by_name(struck, measured, course)
    if has_skipped(measured):
        return Judged(
            Answer.UNKNOWN,
            f"went on after step {resumed}, and only step {measured.reached_step} was seen to be done before: it skips "
            "steps, or what it prints comes late",
            "have it flush its output at each step; if it does, it leaves out steps after a restart",
        )
    if expected is None:
        if course.has_checkpoints is None:
            if resumed > 0:
                return Judged(Answer.PASS, f"went on after step {resumed}, {_lost(measured)}", shows_resume=True)
            return Judged(Answer.FAIL, f"it began from zero: {_lost(measured)}", _SAVES)
        if resumed > 0:
            return Judged(Answer.PASS, f"went on after step {resumed}, {_lost(measured)}", shows_resume=True)
        if struck.overwritten_step:
            return _judge_overwritten(struck.overwritten_step, measured)
        return Judged(
            Answer.PASS,
            f"it came before the first checkpoint, and the job began from zero, as it must: {_lost(measured)}",
        )
    if resumed + blur < expected:
        where = "began from zero" if resumed == 0 else f"went on after step {resumed}"
        return Judged(
            Answer.FAIL,
            f"{where}, although a checkpoint of step {expected} was whole: {expected - resumed} steps lost beyond it",
        )
    source = "a snapshot in memory" if measured.resumed_from == "memory" else "the checkpoint before the fault"
    if resumed > expected and measured.resumed_from != "memory":
        source = "a checkpoint completed just before the end"
    return Judged(Answer.PASS, f"went on after step {resumed}, from {source}: {_lost(measured)}", shows_resume=True)


def _judge_overwritten(step: int, measured: Measured) -> Judged:
    """It began from zero, or so close to it that its output does not tell."""
    if measured.blur_steps >= step:
        return Judged(
            Answer.UNKNOWN,
            f"whether it began from zero or went on from the checkpoint of step {step} cannot be told",
            _EACH_STEP,
        )
    return Judged(
        Answer.FAIL,
        f"it began from zero: a checkpoint of step {step} was being overwritten, and there was no other",
        "write the new one beside it, then rename it (os.replace)",
    )


def has_skipped(measured: Measured) -> bool:
    """It went on after a step that, by its output, it had never done."""
    if measured.resumed_step is None or measured.reached_step is None or not measured.blur_steps:
        return False
    return measured.resumed_step > measured.reached_step + measured.blur_steps


def _judge_by_name(struck: Struck, measured: Measured, course: Course) -> Judged:
    """Nothing tells the step that it went on after."""
    if measured.restarted_s is not None and course.exit_code != 0 and not course.is_ended_early:
        return Judged(Answer.FAIL, f"it was started again and did not come back: {_end(course)}")
    if struck.resumed_name:
        return Judged(
            Answer.UNKNOWN, f"it was handed {struck.resumed_name}; which step it went on after, nothing tells", _PATTERN
        )
    if course.exit_code == 0 and measured.reached_step is not None and measured.reached_step == course.final_step:
        # Steps can be read, so that no pattern is missing: it did none.
        return Judged(
            Answer.UNKNOWN,
            "it was started again and ended well without another step: it was done already",
            _earlier(struck),
        )
    return Judged(Answer.UNKNOWN, "it was started again; which step it went on after, nothing tells", _PATTERN)


def _judge_fall_back(struck: Struck, measured: Measured, course: Course) -> Judged:
    injected = struck.injected
    assert injected is not None
    damaged, damaged_step = ", ".join(injected.damaged), injected.evidence.get("checkpoint_step")
    expected, resumed = measured.checkpoint_step, measured.resumed_step
    # The line after the one before is that of the damaged one, which some programs print when they resume from it.
    has_save_per_line = expected is not None and damaged_step == expected + measured.blur_steps
    blur = 0 if has_save_per_line and _begins_with_new_step(course) else measured.blur_steps
    if struck.refused:
        return Judged(Answer.PASS, f"it refused to start rather than take it: {struck.refused}")
    if not struck.has_begun_again:
        if course.exit_code not in (0, None):
            if expected is not None:
                return Judged(
                    Answer.FAIL, f"it did not come back, although the one of step {expected} was whole: {_end(course)}"
                )
            return Judged(
                Answer.PASS, f"it did not take it, and had no other: {_end(course)}", "keep more than one checkpoint"
            )
        return Judged(Answer.UNKNOWN, "which step it went on after, nothing tells", _PATTERN)
    is_told_by_itself = measured.blur_steps > 0
    if struck.resumed_name and struck.resumed_name == damaged and not is_told_by_itself:
        return Judged(Answer.FAIL, f"it was resumed from {damaged}, which was damaged")
    if resumed is None:
        return Judged(Answer.UNKNOWN, "which step it went on after, nothing tells", _PATTERN)
    # A name that is written over and over may stand for a newer step than was seen last.
    is_another = bool(struck.resumed_name) and not is_told_by_itself
    # It went on after `resumed` or up to `blur` steps later.
    if not is_another and damaged_step is not None and damaged_step <= resumed + blur:
        if expected is not None and resumed <= expected:
            return Judged(
                Answer.UNKNOWN,
                f"whether it took {damaged}, which was damaged, or the one of step {expected}, cannot be told",
                _KILL_TOO if has_save_per_line else _EACH_STEP,
            )
        return Judged(Answer.FAIL, f"it went on after step {resumed}: it took {damaged}, which was damaged")
    if expected is not None and resumed + blur < expected:
        where = "began from zero" if resumed == 0 else f"went on after step {resumed}"
        return Judged(
            Answer.FAIL,
            f"{where}, although the checkpoint of step {expected} was whole: {expected - resumed} steps lost beyond it",
        )
    if expected is None and resumed > 0 and damaged_step is None and not is_another:
        return Judged(Answer.FAIL, f"it went on after step {resumed}: it took {damaged}, which was damaged")
    if resumed == 0 and expected is None:
        return Judged(
            Answer.FAIL, "it began from zero without a word: there was no whole checkpoint left, and it has to refuse"
        )
    return Judged(Answer.PASS, f"passed {damaged} over, went on after step {resumed}", shows_resume=True)


def _begins_with_new_step(course: Course) -> bool:
    """What it prints after a restart begins with a step that it does, not with the one that it resumes from: another restart
    went on after the newest that there was."""
    return any(
        struck.measured.resumed_step == struck.injected.evidence.get("newest_step")
        for struck in course.struck
        if struck.injected is not None and struck.measured is not None and struck.measured.resumed_step
    )


def _judge_without_restart(struck: Struck, measured: Measured, course: Course, *, is_last: bool) -> Judged:
    if is_last and (course.is_over_limit or course.exit_code not in (0, None)):
        return Judged(Answer.FAIL, f"it did not come back: {_end(course)}")
    if struck.consequence is Consequence.GO_ON:
        if measured.caught_up_s is None and course.exit_code != 0:
            return Judged(Answer.UNKNOWN, "whether it went on was not seen")
        saved = f", and has saved step {measured.saved_since} since" if measured.saved_since is not None else ""
        return Judged(Answer.PASS, f"it went on without a restart{saved}")
    return Judged(
        Answer.UNKNOWN, "it was not started again, and ended well: the fault came too late to matter", _earlier(struck)
    )


def judge_end(course: Course, calm: Course | None) -> Judged:
    """The end of the course, held against the undisturbed run's."""
    if course.is_ended_early:
        return Judged(Answer.PASS, "it was ended there, as asked for")
    if course.is_over_limit:
        return Judged(
            Answer.FAIL, f"it had not finished after {duration(course.took_s)}", "a longer --limit, if it needs one"
        )
    if course.exit_code != 0:
        caused = [struck for struck in course.struck if struck.injected is not None]
        last = caused[-1] if caused else None
        is_refusal = last is not None and last.consequence is Consequence.FALL_BACK and not last.has_begun_again
        if is_refusal and last is not None and last.measured is not None and last.measured.checkpoint_step is None:
            return Judged(Answer.PASS, "it refused a damaged checkpoint, and had no other to go on from")
        return Judged(Answer.FAIL, _end(course))
    if calm is None or calm.final_step is None or course.final_step is None:
        return Judged(Answer.PASS, "it finished with exit code 0")
    if course.final_step != calm.final_step:
        return Judged(
            Answer.FAIL, f"it ended at step {course.final_step}; undisturbed it ends at step {calm.final_step}"
        )
    return Judged(Answer.PASS, f"it finished at step {course.final_step}, as undisturbed")


def judge(faults: Sequence[Judged], end: Judged) -> Judged:
    """The drill as a whole: what failed outweighs what is unknown, and that what passed."""
    for answer in (Answer.FAIL, Answer.UNKNOWN):
        told = [(number, judged) for number, judged in enumerate(faults, 1) if judged.answer is answer]
        if told:
            number, first = told[0]
            more = f"; and {len(told) - 1} more" if len(told) > 1 else ""
            return Judged(answer, f"fault {number}: {first.reason}{more}", first.remedy)
        if end.answer is answer:
            return end
    if (
        faults
        and not any(judged.shows_resume for judged in faults)
        and any(j.reason.startswith("it came") for j in faults)
    ):
        return Judged(
            Answer.UNKNOWN, "every fault came before the first checkpoint: none shows a resume", "let them come later"
        )
    return Judged(Answer.PASS, f"it came through {_all(len(faults))}, and {end.reason.removeprefix('it ')}")


_PATTERN = r"tell it how to read the step from the output: --step-pattern 'step (\d+)'"
_EACH_STEP = "have it print each step, or save less often than it prints"
_KILL_TOO = "--fault kill-group before it shows how to read its output; if it is there, save less often than it prints"
_SAVES = "if it saves checkpoints, say where: --checkpoints GLOB"
_EFFECTS = {
    "zero": "that part of the file may have been zeros before",
    "disk-full": "it may not have written anything meanwhile: let it last longer",
}


def _earlier(struck: Struck) -> str:
    when = struck.spec.when
    if struck.injected is None and when is not None and when.kind is Kind.PHASE and when.phase in (SAVE, COMMIT):
        return "--fault kill-at-every-operation hits each file operation of a save, however short it is"
    if struck.injected is None and struck.why_not != NEVER_CAME:
        return ""
    return f"give it an earlier moment than {when.text}, or the job more to do" if when else "give the job more to do"


def _all(count: int) -> str:
    return {1: "the fault", 2: "both faults"}.get(count, f"all {count} faults")


def _lost(measured: Measured) -> str:
    if measured.lost_steps is None:
        return "how many steps were lost is not known"
    if not measured.lost_steps:
        return "nothing lost"
    steps = "1 step" if measured.lost_steps == 1 else f"{measured.lost_steps} steps"
    return f"{steps} lost" + (f", {duration(measured.lost_s)}" if measured.lost_s is not None else "")


def _end(course: Course) -> str:
    if course.is_over_limit:
        return f"it had not finished after {duration(course.took_s)}"
    said = f" ({course.ended_as})" if course.ended_as else ""
    return f"it ended with {_code(course.exit_code)}{said}"


def _code(code: int | None) -> str:
    if code is None:
        return "no exit code"
    return signal_name(-code) if code < 0 else f"exit code {code}"
