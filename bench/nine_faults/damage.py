"""F3: the newest checkpoint truncated. F4: one bit flipped in it. F5: its small files deleted, one at a time."""

import math
import os
import struct
from collections.abc import Callable
from pathlib import Path

from nine_faults.lab import NEWEST, Cell, Lab, NotTriedError
from nine_faults.verdict import Verdict, tally


def truncated(lab: Lab) -> Cell:
    """F3. The largest file of the newest checkpoint loses its second half."""

    def cut(files: list[Path]) -> str:
        largest = _largest(files)
        os.truncate(largest, largest.stat().st_size // 2)
        return largest.name

    name, verdict = _after(lab, cut)
    return Cell(str(verdict), verdict.is_exact, [f"{verdict}: {name}"])


def flipped(lab: Lab) -> Cell:
    """F4. The highest bit of a stored number's mantissa, in the large files by turns."""
    words, notes = [], []
    for turn in range(lab.scale.flips):

        def flip(files: list[Path], turn: int = turn) -> str:
            half = _largest(files).stat().st_size / 4
            large = [path for path in files if path.stat().st_size >= half]
            return flip_a_bit(large[turn % len(large)], (turn + 0.5) / lab.scale.flips)

        place, verdict = _after(lab, flip)
        words.append(_detection(verdict))
        notes.append(f"{words[-1]}: {place}")
    return Cell(tally(words), all(word.startswith(("detected, OK", "detected, same")) for word in words), notes)


def _detection(verdict: Verdict) -> str:
    """Whoever resumed from the damaged checkpoint did not notice."""
    if verdict.step != NEWEST:
        return f"detected, {verdict}"
    return "undetected, no effect" if verdict.is_exact else "undetected, DIVERGED"


def flip_a_bit(path: Path, share: float) -> str:
    """Flip a bit of the first usual number after that share of the file; where that was."""
    with path.open("r+b") as stream:
        at = int(path.stat().st_size * share) // 4 * 4
        while True:
            stream.seek(at)
            word = stream.read(4)
            if len(word) < 4:
                raise RuntimeError(f"{path} holds no numbers after {share:.0%}")
            (value,) = struct.unpack("<f", word)
            if math.isfinite(value) and 1e-8 < abs(value) < 1e3:
                break
            at += 4
        changed = bytes([word[0], word[1], word[2] ^ 0x40, word[3]])
        stream.seek(at)
        stream.write(changed)
    return f"{path.name} at byte {at + 2}: {value:.3g} became {struct.unpack('<f', changed)[0]:.3g}"


def deleted(lab: Lab) -> Cell:
    """F5. Each file of the newest checkpoint but the largest, one at a time."""
    lab.restore()
    files = lab.system.newest(lab.store)
    names = [path.name for path in files if path != _largest(files)]
    if not names:
        raise NotTriedError("a checkpoint is one file")
    found: dict[str, list[str]] = {}
    rights = []
    for name in names:

        def delete(files: list[Path], name: str = name) -> str:
            next(path for path in files if path.name == name).unlink()
            return name

        _, verdict = _after(lab, delete)
        found.setdefault(str(verdict), []).append(name)
        rights.append(verdict.is_exact)
    text = ", ".join(
        f"{word} {len(of)}/{len(names)}" + ("" if word.startswith(("OK", "same")) else f" ({', '.join(of)})")
        for word, of in found.items()
    )
    return Cell(text, all(rights), [f"{word}: {', '.join(of)}" for word, of in found.items()])


def _after(lab: Lab, damage: Callable[[list[Path]], str]) -> tuple[str, Verdict]:
    """Damage the newest checkpoint of a killed job; what was damaged, and what the next start makes of it."""
    lab.restore()
    what = damage(lab.system.newest(lab.store))
    return what, lab.judge(lab.settle())


def _largest(files: list[Path]) -> Path:
    return max(files, key=lambda path: path.stat().st_size)
