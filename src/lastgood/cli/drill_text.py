"""A drill for a person: the verdict first, a table of the faults, and the bill."""

from typing import TYPE_CHECKING

from lastgood.cli import output
from lastgood.core.units import byte_size, duration

if TYPE_CHECKING:
    from lastgood.drill.answer import DrillAnswer, DrilledBill, DrilledFault, DrilledLoad, DrilledRun
    from lastgood.drill.fault import Call

_LABEL = 14
_SHOWN_WORDS = 6


def text_of(answer: "DrillAnswer") -> str:
    lines = [f"{answer.verdict.upper()}: {answer.reason}"]
    if answer.remedy:
        lines.append(f"what to do: {answer.remedy}")
    lines = [line for text in lines for line in output.wrap(text, indent="  ")]
    if answer.faults:
        lines += ["", _table(answer.faults), "", *_explanations(answer.faults)]
    if answer.tries:
        lines += ["", *_tries(answer)]
    lines += ["", *_runs(answer)]
    if answer.bill is not None:
        lines += _bill(answer.bill)
    if answer.load is not None:
        lines += _row("load", _load(answer.load))
    lines += _row("seed", str(answer.seed))
    if answer.directory:
        lines += _row("left", f"{answer.directory} (drill.jsonl, and what it printed: drill/output.txt)")
    return "\n".join(line.rstrip() for line in lines)


def _load(load: "DrilledLoad") -> str:
    parts = [f"{load.cpu} computed, {duration(load.cpu_s)} of processor time"] if load.cpu else []
    parts += [f"{byte_size(load.memory_bytes)} of memory were held"] if load.memory_bytes else []
    parts += [f"{byte_size(load.written_bytes)} were written"] if load.written_bytes else []
    return f"for {duration(load.took_s)}: {'; '.join(parts)}"


def _table(faults: "list[DrilledFault]") -> str:
    rows = [
        [
            str(fault.number),
            fault.verdict,
            _count(fault.reached_step),
            _resumed(fault),
            _count(fault.lost_steps),
            _seconds(fault.detected_s),
            _seconds(fault.restarted_s),
            _seconds(fault.first_step_s),
            fault.fault.partition("@")[0].partition(",")[0],
        ]
        for fault in faults
    ]
    headings = ["#", "VERDICT", "AT", "RESUMED AT", "LOST", "SEEN", "STARTED", "NEW STEP", "FAULT"]
    return output.table(headings, rows, right=[0, 2, 4, 5, 6, 7])


def _explanations(faults: "list[DrilledFault]") -> list[str]:
    lines: list[str] = []
    remedy = ""
    for fault in faults:
        what = f"{fault.fault}: {fault.what}" if fault.what else fault.fault
        lines += output.wrap(f"{fault.number}. {what}. {_sentence(fault.reason)}", indent="   ")
        if fault.overtaken_by is not None:
            text = f"fault {fault.overtaken_by} came before the job had come through this one: the times count both"
            lines += output.wrap(f"   {text}", indent="   ")
        if fault.requeued_s is not None:
            lines += output.wrap(f"   Slurm had started it again {duration(fault.requeued_s)} after it", indent="   ")
        if fault.caught:
            lines += output.wrap(f"   in that phase: {fault.caught}", indent="   ")
        if fault.remedy and fault.remedy != remedy:
            lines += output.wrap(f"   what to do: {fault.remedy}", indent="   ")
        remedy = fault.remedy
    return lines


def _tries(answer: "DrillAnswer") -> list[str]:
    counts = {word: sum(one.verdict == word for one in answer.tries) for word in ("pass", "fail", "unknown")}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    lines = [f"{len(answer.tries)} tries: {told}"]
    for one in answer.tries:
        if one.verdict != "pass":
            lines += output.wrap(f"  {one.verdict}: {one.what}: {one.reason}", indent="    ")
    return lines


def _runs(answer: "DrillAnswer") -> list[str]:
    lines: list[str] = []
    if answer.undisturbed is not None:
        calm = answer.undisturbed
        steps = f", {calm.final_step} steps" if calm.final_step else ""
        lines += _row("undisturbed", f"{duration(calm.took_s)}{steps}")
        lines += _last_words(calm)
    if answer.disturbed is not None:
        lines += _row("under faults", f"{duration(answer.disturbed.took_s)}; {answer.end}")
        lines += _last_words(answer.disturbed)
    return lines


def _last_words(run: "DrilledRun") -> list[str]:
    """Where it ended badly, what it said."""
    if run.exit_code in (0, None):
        return []
    return [f"  | {output.shorten(output.plain(line), output.WIDTH - 4)}" for line in run.last_words[-_SHOWN_WORDS:]]


def _bill(bill: "DrilledBill") -> list[str]:
    lines: list[str] = []
    if bill.ettr is not None:
        text = f"{bill.ettr:.0%} of that time was needed" if bill.ettr < 1 else "it took no longer than undisturbed"
        if bill.ettr_first_order is not None:
            text += f"; predicted for so many failures: {bill.ettr_first_order:.0%}"
        lines += _row("ETTR", text)
    if bill.lost_per_failure_s is not None:
        text = f"{duration(bill.lost_per_failure_s)} of work per failure"
        if bill.lost_per_failure_predicted_s is not None:
            text += f"; predicted {duration(bill.lost_per_failure_predicted_s)} (half an interval of {duration(bill.interval_s or 0.0)}, and the write)"
        if bill.delay_per_failure_s is not None:
            text += f"; {duration(bill.delay_per_failure_s)} until it had caught up"
        lines += _row("lost", text)
    if bill.overhead is not None:
        text = f"{bill.overhead:+.1%} without failures, against the bare command"
        if bill.spread is not None and abs(bill.overhead) < bill.spread:
            text = f"{text}: not to be told from noise, as two runs of a kind differ by up to {bill.spread:.0%}"
        elif bill.spread is not None:
            text += f" (two runs of a kind differ by up to {bill.spread:.0%})"
        lines += _row("protection", text)
    for other in bill.others:
        who = "requeue only" if other.way == "started again" else "no checkpoint"
        if other.took_s is not None:
            text = f"{duration(other.took_s)} under the same faults, and no wait in a queue"
        else:
            text = f"had not finished after {duration(other.limit_s)} under the same faults"
        text += f" ({other.faults} came, {other.starts} starts)"
        lines += _row(who, text)
    return lines


def list_text(call: "Call") -> str:
    """Every fault, its options, what it needs, and whether it can be caused here."""
    from lastgood.core.errors import LastgoodError
    from lastgood.drill.fault import CAMPAIGNS, KNOWN, fault_class, make_fault

    rows = []
    for name, (_, line) in (KNOWN | CAMPAIGNS).items():
        try:
            missing = make_fault(name, {}).missing(call)
            options = "\n".join(f"{option}: {text}" for option, text in fault_class(name).options.items())
        except (ImportError, LastgoodError) as error:
            missing, options = str(error), ""
        told = line + (f"\n{options}" if options else "") + (f"\ncannot be caused here: {missing}" if missing else "")
        rows.append([name, "no" if missing else "yes", told])
    return output.table(["FAULT", "HERE", "WHAT IT DOES, AND ITS OPTIONS"], rows)


def _row(label: str, text: str) -> list[str]:
    first, *others = output.wrap(text, output.WIDTH - _LABEL)
    return [f"{label:<{_LABEL}}{first}", *(" " * _LABEL + other for other in others)]


def _resumed(fault: "DrilledFault") -> str:
    if fault.resumed_step is None:
        return "-"
    about = "~" if fault.blur_steps else ""
    return f"{about}{fault.resumed_step} {fault.resumed_from}".rstrip() if fault.resumed_from != "zero" else "from zero"


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
