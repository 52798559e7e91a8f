"""For tests: that a job gives the same answer after it was killed and resumed."""

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["assert_resume_equal"]


def assert_resume_equal(
    command: Sequence[str] | str,
    *,
    directory: Path | str = ".",
    kills: int = 2,
    seed: int = 0,
    files: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
    step_pattern: str = "",
    rtol: float = 0.0,
    atol: float = 0.0,
    statistical: Mapping[str, str] | None = None,
    bound: float = 3.0,
    again: bool = False,
    resume_command: Sequence[str] | str = (),
    run_options: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    through_links: bool = False,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 600.0,
    keep: Path | str | None = None,
) -> None:
    """Fail unless the command gives the same answer after it was killed and resumed; the message is the whole report.

    It runs twice undisturbed and `kills` times with SIGKILL and a resume, each time in a copy of `directory`, as
    `lastgood prove` does (see there). What cannot be told fails, too: a kill that missed proves nothing.

        import sys
        from lastgood.testing import assert_resume_equal

        def test_training_survives_being_killed():
            assert_resume_equal([sys.executable, "train.py", "--epochs", "2"], directory="examples", limit_s=120)

    Args:
        command: The program and its arguments; a text is split as a shell would.
        directory: What each run gets a copy of, and works in.
        kills, seed: How many runs are killed, and what chooses the steps.
        files: Globs of final files to compare; none: what both undisturbed runs have written alike.
        values: Patterns (regular expressions with a group) of values in the output, by name; None: what `run.log`
            recorded, or every number beside a step.
        step_pattern: Finds the step in a line of output; empty: guessed.
        rtol, atol: Allowed difference, as `numpy.isclose` has it.
        statistical, bound: Values of a Monte Carlo job with the names of their standard errors (empty: none), which
            may be `bound` standard errors apart.
        again: The killed command is given again and finds its own checkpoints. Otherwise it runs under `lastgood run`
            if it uses the library, or if `run_options` say how (`("--app", "gromacs")`).
        resume_command: It is resumed by this command line.
        leave_out: Names of what is not copied.
        through_links: Links in `directory` to writable directories elsewhere are only read, or written through on purpose;
            otherwise they are refused.
        environment: More variables for the command.
        limit_s: For each run.
        keep: A new directory in which the runs are kept; None: a temporary one, kept when the assertion fails.

    Raises:
        AssertionError: The answer is not the same, or nothing can be told. The report says what differs first, by how
            much, and why it may be.
        UsageError: The call is wrong; nothing was started.
    """
    from lastgood.prove.difference import Tolerance
    from lastgood.prove.documenting import document_of
    from lastgood.prove.page import page
    from lastgood.prove.runner import Request, prove
    from lastgood.trial.links import refuse_links_out
    from lastgood.trial.place import remove
    from lastgood.trial.target import Target, Way

    words = _words(command)
    resume = _words(resume_command)
    target = Target(
        command=words,
        directory=Path(directory).resolve(),
        options=tuple(run_options),
        step_pattern=step_pattern,
        checkpoints=_option(run_options, "--checkpoints"),
        leave_out=tuple(leave_out),
        environment=dict(environment or {}),
        resume_command=resume,
        limit_s=limit_s,
    )
    refuse_links_out(target, through_links)
    root = Path(keep) if keep is not None else Path(tempfile.mkdtemp(prefix="lastgood-prove-"))
    root.mkdir(parents=True, exist_ok=True)
    request = Request(
        target=target,
        root=root.resolve(),
        way=Way.AGAIN if again or resume else Way.LASTGOOD if run_options else None,
        kills=kills,
        seed=seed,
        values=dict(values or {}),
        files=tuple(files),
        tolerance=Tolerance(rtol, atol),
        statistical=tuple((statistical or {}).items()),
        bound=bound,
    )
    is_kept = keep is not None
    try:
        proof = prove(request, lambda name, sight: None, lambda text: None)
        is_equal = proof.verdict.answer.exit_code == 0
        is_kept = is_kept or not is_equal
    finally:
        if not is_kept:
            remove(root)
    if not is_equal:
        raise AssertionError(page(document_of(proof, words, str(root))))


def _words(command: Sequence[str] | str) -> tuple[str, ...]:
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def _option(options: Sequence[str], name: str) -> str:
    """Its value, given as a word of its own or behind `=`; empty if it is not there."""
    words = list(options)
    joined = next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "")
    return words[words.index(name) + 1] if name in words[:-1] else joined
