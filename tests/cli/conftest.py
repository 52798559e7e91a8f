"""Running commands in this process, and decoding what they print."""

import errno
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from lastgood.cli.answers import ANSWERS
from lastgood.cli.main import main


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def answer(self, command: str) -> Any:
        """The JSON output, checked against the documented shape; an undocumented member fails."""
        return msgspec.json.decode(self.out.encode(), type=ANSWERS[command], strict=True)


Lastgood = Callable[..., Said]


@pytest.fixture
def lastgood(capsys: pytest.CaptureFixture[str]) -> Lastgood:
    """`lastgood("ls", job.path)`: exit code, standard output and standard error."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # argparse's answer to a wrong command line
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(code, out, err)

    return run


@pytest.fixture
def fail_to_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`fail_to_read(part_of_a_path)`: opening such files answers with an input/output error."""
    real = os.open

    def fail(part: str) -> None:
        def failing(path: Any, *rest: Any, **named: Any) -> int:
            if part in os.fspath(path) and not os.path.isdir(path):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return real(path, *rest, **named)

        monkeypatch.setattr(os, "open", failing)

    return fail
