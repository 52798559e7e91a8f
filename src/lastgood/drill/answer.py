"""What a drill prints with --json. Times in seconds, moments in seconds since 1970; null: not known, or it did not come to that."""

from typing import Annotated, Literal

import msgspec


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


Verdict = Annotated[
    Literal["pass", "fail", "unknown"], _says("unknown: what was tried cannot tell, which is never taken for a pass")
]
Reason = Annotated[str, _says("why")]
Remedy = Annotated[str, _says("what to change; empty if nothing is known")]
Seconds = float | None


class DrilledFault(_Answer):
    number: Annotated[int, _says("from 1, in the order of the plan")]
    fault: Annotated[str, _says("as --fault has it, with the moment that was chosen")]
    verdict: Verdict
    reason: Reason
    remedy: Remedy
    at: Annotated[Seconds, _says("the moment of the harm; null if it was not caused")]
    what: Annotated[str, _says("what was done, to whom")]
    caught: Annotated[str, _says("what showed that the program was in the phase that was asked for")]
    pids: Annotated[list[int], _says("processes that it hit")]
    paths: Annotated[list[str], _says("files that it hit")]
    has_effect: Annotated[bool | None, _says("whether it took effect; null: it cannot be told")]
    reached_step: Annotated[int | None, _says("last step that was done before the harm")]
    checkpoint_step: Annotated[int | None, _says("of the newest checkpoint that was whole before it")]
    resumed_step: Annotated[int | None, _says("the step that the next start went on after; 0: from zero")]
    blur_steps: Annotated[int, _says("resumed_step may be off by as much as this: the output does not tell every step")]
    resumed_from: Annotated[
        Literal["memory", "storage", "zero", ""], _says("where its state came from; empty if there was no other start")
    ]
    lost_steps: Annotated[int | None, _says("reached_step - resumed_step: done again")]
    lost_s: Annotated[Seconds, _says("work that was done again")]
    detected_s: Annotated[Seconds, _says("from the harm until its end was seen")]
    ended_as: Annotated[str, _says("what the launcher took it for")]
    restarted_s: Annotated[Seconds, _says("from the harm until it was started again")]
    first_step_s: Annotated[Seconds, _says("from the harm to the first new step")]
    caught_up_s: Annotated[Seconds, _says("from the harm until the step that it had reached was done again")]
    overtaken_by: Annotated[
        int | None, _says("the number of the next fault, if it came before the job had come through: times count both")
    ]
    is_undone: Annotated[bool, _says("false: it could not be undone, `reason` says why")]
    requeued_s: Annotated[Seconds, _says("from the harm until Slurm had started the job again, with --slurm")] = None


class DrilledTry(_Answer):
    what: Annotated[str, _says("what was done")]
    verdict: Verdict
    reason: Reason
    resumed_step: Annotated[int | None, _says("the step that the next start went on after")]
    lost_steps: Annotated[int | None, _says("done again")]


class DrilledRun(_Answer):
    took_s: Annotated[float, _says("from the first start to the end")]
    exit_code: Annotated[int | None, _says("of the last start; null if the drill ended it")]
    starts: Annotated[int, _says("how often the command line was given")]
    final_step: Annotated[int | None, _says("the last that was done")]
    is_over_limit: Annotated[bool, _says("it was ended because its limit had passed")]
    start_s: Annotated[float, _says("from the first start to the first step; 0: no step was seen")]
    last_words: Annotated[list[str], _says("the end of its output")]


OtherWay = Literal["started again", "from nothing"]


class DrilledOther(_Answer):
    way: Annotated[OtherWay, _says("who starts it again, and with what left")]
    took_s: Annotated[Seconds, _says("null: it had not finished")]
    limit_s: Annotated[float, _says("after so long it was ended")]
    starts: Annotated[int, _says("how often the command line was given")]
    faults: Annotated[int, _says("how many came before its end")]


class DrilledBill(_Answer):
    bare_s: Annotated[list[float], _says("undisturbed runs of the bare command")]
    protected_s: Annotated[list[float], _says("undisturbed runs under `lastgood run`, by turns with those")]
    overhead: Annotated[float | None, _says("median of protected_s / median of bare_s - 1")]
    spread: Annotated[float | None, _says("largest difference between two runs of a kind, as a share of their median")]
    ettr: Annotated[float | None, _says("time of an undisturbed run / time under the faults")]
    ettr_first_order: Annotated[
        float | None,
        _says("predicted for as many failures: T / (T + n (half an interval + write + detection + restart))"),
    ]
    ettr_predicted: Annotated[
        float | None, _says("the plan's exact formula, for failures at random as often as these, one each mtti_s")
    ]
    lost_per_failure_s: Annotated[Seconds, _says("mean of lost_s")]
    lost_per_failure_predicted_s: Annotated[Seconds, _says("half an interval and the lag of the write")]
    delay_per_failure_s: Annotated[Seconds, _says("mean of caught_up_s, of faults that were followed by a restart")]
    interval_s: Annotated[Seconds, _says("median time between two commits of the undisturbed run")]
    interval_steps: Annotated[int | None, _says("the same in steps")]
    write_s: Annotated[Seconds, _says("median time from the start of a save to its commit")]
    mtti_s: Annotated[Seconds, _says("mean time between the faults, which the prediction is for")]
    others: Annotated[list[DrilledOther], _says("the same faults, met in other ways")]


class DrilledLoad(_Answer):
    cpu: Annotated[int, _says("so many processes computed")]
    cpu_s: Annotated[float, _says("processor time that all processes of the load have used")]
    memory_bytes: Annotated[int, _says("memory that was held")]
    written_bytes: Annotated[int, _says("written and flushed where the job worked")]
    took_s: Annotated[float, _says("how long it lasted: all of the drill")]


class DrillAnswer(_Answer):
    verdict: Verdict
    reason: Reason
    remedy: Remedy
    command: Annotated[list[str], _says("as it was given")]
    way: Annotated[str, _says("who started it again: lastgood, or the drill itself (started again)")]
    seed: Annotated[int, _says("of all choices; the same seed makes the same schedule")]
    directory: Annotated[str, _says("of the drill, with drill.jsonl and the outputs; empty if it was removed")]
    undisturbed: Annotated[DrilledRun | None, _says("null with --quick")]
    disturbed: Annotated[DrilledRun | None, _says("null if it did not come to that")]
    end: Annotated[str, _says("how the run under faults ended, held against the undisturbed one")]
    faults: list[DrilledFault]
    tries: Annotated[list[DrilledTry], _says("of faults that are tried many times, each in a run of its own")]
    bill: DrilledBill | None
    load: Annotated[DrilledLoad | None, _says("what --load came to; null without it")] = None
