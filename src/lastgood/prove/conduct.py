"""One run of a proof from its start to its end: undisturbed, or killed and resumed."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.launch.soundness import problem_of_file
from lastgood.prove.at_write import Aim
from lastgood.prove.checkpoint_files import Units, saves_of
from lastgood.prove.keeping_digests import Digests
from lastgood.prove.killing import Hit, carry_out
from lastgood.prove.plan_of_kills import Kill
from lastgood.prove.shown import Shown
from lastgood.prove.watching import Watch, stamps_below
from lastgood.trial.place import Place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import AGAIN_CODES, LOOK_S, Sight, Trial

_STARTS_AFTER_A_KILL = 3
"""Where our launcher asks to be started again, so often at most."""
_STEADY_BYTES = 2**30
"""Checkpoints that are larger together are not read right after a kill."""

Saying = Callable[[str, Sight], None]


def undisturbed(target: Target, place: Place, way: Way, say: Saying) -> Shown:
    """Run the command to its end."""
    return _conduct(target, place, way, [], Units(()), None, None, say)


def disturbed(
    target: Target,
    place: Place,
    way: Way,
    kills: Sequence[Kill],
    units: Units,
    aim: Aim | None,
    last_step: int | None,
    say: Saying,
) -> Shown:
    """Run the command, kill it, and have it resume, to its end. `aim`: how it can be killed while it saves."""
    return _conduct(target, place, way, kills, units, aim, last_step, say)


def _conduct(
    target: Target,
    place: Place,
    way: Way,
    kills: Sequence[Kill],
    units: Units,
    aim: Aim | None,
    last_step: int | None,
    say: Saying,
) -> Shown:
    hits: list[Hit] = []
    end = time.monotonic() + target.limit_s
    with Trial(target, place, way) as trial:
        baseline = stamps_below(place.work)
        watch = Watch(place)
        saved_steps: set[int] = set()
        counted = [0, 0]
        """How much of what was written has been counted, and how many checkpoints that was."""

        def saves(watch: Watch, sight: Sight) -> int:
            if way is Way.LASTGOOD and sight.saved_step is not None:
                saved_steps.add(sight.saved_step)
            if len(watch.written) != counted[0]:
                counted[:] = len(watch.written), len(saves_of(watch.written, units, 0.0))
            # Of checkpoints that are not ours the launcher sees some only: it looks now and then.
            return max(len(saved_steps), counted[1])

        def tell(sight: Sight) -> None:
            say(place.name, sight)

        trial.start()
        for kill in kills:
            hit = carry_out(trial, watch, kill, saves, aim, last_step, max(end - time.monotonic(), 0.0), tell)
            watch.look_at_files(trial.starts, hit.step)
            hits.append(msgspec.structs.replace(hit, unsound=_unsound(place, watch, units)))
            if not hit.is_hit:
                break
            if way is not Way.LASTGOOD:
                watch.end_start(trial.starts)
                trial.start()
        digests = Digests(place)
        code = _finish(trial, watch, digests if way is Way.LASTGOOD else None, end, tell)
        duration_s = time.time() - trial.began
        trial.end()
        watch(trial.look())
        if way is Way.LASTGOOD:
            digests.take()
        return Shown(
            name=place.name,
            place=place,
            way=way,
            began=trial.began,
            duration_s=duration_s,
            exit_code=code,
            lines=watch.lines,
            written=watch.written,
            temporary=watch.temporary,
            steps=watch.steps,
            records=trial.records(),
            hits=hits,
            digests=digests.found,
            baseline=baseline,
        )


def _finish(
    trial: Trial, watch: Watch, digests: Digests | None, end: float, tell: Callable[[Sight], None]
) -> int | None:
    """Wait until it ends by itself. Its exit code; None if the limit passed."""
    starts = trial.starts
    while True:
        sight = trial.look()
        watch(sight)
        tell(sight)
        if digests is not None:
            digests(sight)
        if not sight.is_running:
            code = trial.exit_codes[-1]
            is_asked = trial.way is Way.LASTGOOD and code in AGAIN_CODES
            if not is_asked or trial.starts - starts >= _STARTS_AFTER_A_KILL:
                return code
            watch.end_start(trial.starts)
            trial.start()
        if time.monotonic() > end:
            return None
        time.sleep(LOOK_S)


def _unsound(place: Place, watch: Watch, units: Units) -> tuple[str, ...]:
    """Checkpoint files that are not whole, right after a kill."""
    found = []
    total = 0
    for path in dict.fromkeys(one.path for one in watch.written):
        if units.unit_of(path) is None:
            continue
        file = Path(place.work, path)
        with suppress(OSError):
            total += file.stat().st_size
            if total < _STEADY_BYTES and (problem := problem_of_file(str(file))):
                found.append(f"{path}: {problem}")
    return tuple(found)
