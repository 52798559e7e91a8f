"""`lastgood export`: writes a checkpoint in a format that other tools read."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lastgood.cli import arguments

if TYPE_CHECKING:
    from lastgood.cli.answers import ExportAnswer
    from lastgood.store.export import Export
    from lastgood.store.reader import Checkpoint

Format = Literal["safetensors", "torch", "dcp", "npz"]

FORMATS: tuple[Format, ...] = ("safetensors", "torch", "dcp", "npz")
_BY_SUFFIX: dict[str, Format] = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".npz": "npz",
    "": "dcp",
}


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    arguments.add_optional_checkpoint(parser)
    parser.add_argument("--to", metavar="PATH", required=True, help="what to write; its suffix chooses the format")
    parser.add_argument("--format", choices=FORMATS, help="the format, whatever the suffix")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--entry", metavar="NAME", action="append", help="only this entry of the state (may be repeated)"
    )
    which.add_argument(
        "--all-entries", action="store_true", help="also those of lastgood itself: step, random state ..."
    )
    parser.add_argument(
        "--rank", metavar="N", type=arguments.at_least(0), help="only the state of this rank (default: of all)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser.epilog = """\
examples:
  lastgood export runs/exp1 --to model.safetensors --entry model
  lastgood export runs/exp1 1200 --to checkpoint.pt

formats:
  .safetensors  every array, byte for byte; needs neither torch nor safetensors
  .pt, .pth     for torch.load(path, weights_only=True): {"model": {...}, ...}; needs torch
  .npz          for numpy.load(path)
  no suffix     a directory for torch.distributed.checkpoint; needs torch

.safetensors and .npz hold arrays only: other values go to a JSON file beside, PATH.json.
With several ranks, what belongs to one of them is called rank-00001.NAME.
Every byte is checked while it is read. A directory is never replaced.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.jobs import open_named
    from lastgood.core.errors import DamagedError
    from lastgood.store import durable
    from lastgood.store.export import select
    from lastgood.store.reader import open_checkpoint
    from lastgood.store.survey import find, survey

    path = Path(parsed.to).absolute()
    chosen_format = _format(parsed.format, path)
    job = open_named(parsed.job)
    chosen = find(job, survey(job), parsed.checkpoint)
    _refuse_taken(path, chosen_format, parsed.overwrite)
    if chosen_format in ("torch", "dcp"):
        _need_torch(chosen_format)
    try:
        with durable.explained("export to", path, safe="the checkpoint was not touched"):
            checkpoint = open_checkpoint(job, chosen.name)
            export = select(checkpoint, *_entries(checkpoint, parsed), parsed.rank)
            durable.make_directory(path.parent)
            files, changed = _write(export, path, chosen_format, parsed.overwrite)
    except DamagedError as error:
        raise DamagedError(
            error.what,
            safe="nothing was written",
            remedy="`lastgood verify` says which checkpoints are whole; name one of those",
        ) from error
    answer = _answer(export, chosen_format, files, changed, str(job.path))
    if parsed.json:
        output.put_json(answer)
    else:
        output.put("\n".join(_text(answer)))
    return 0


def _format(asked: Format | None, path: Path) -> Format:
    from lastgood.core.errors import UsageError

    chosen = asked or _BY_SUFFIX.get(path.suffix)
    if chosen is None:
        raise UsageError(
            f"--to {path.name}: no format is known by the suffix {path.suffix!r}",
            safe="nothing was written",
            remedy="use .safetensors, .pt, .npz or no suffix (a directory), or say --format",
        )
    return chosen


def _need_torch(chosen: Format) -> None:
    from lastgood.core.errors import UsageError

    try:
        __import__("torch")
    except ImportError as error:
        raise UsageError(
            f"the format {chosen} needs torch, which cannot be imported here: {error}",
            safe="nothing was written",
            remedy="install torch, or export to .safetensors, which needs nothing",
        ) from error


def _refuse_taken(path: Path, chosen: Format, may_overwrite: bool) -> None:
    """Before the work, where it is already clear that it would be in vain."""
    from lastgood.core.errors import UsageError
    from lastgood.store.export import taken, values_file

    if chosen == "dcp" or path.is_dir():
        if os.path.lexists(path) and not (chosen == "dcp" and path.is_dir() and not os.listdir(path)):
            raise UsageError(
                f"{path} exists already, and only a file is ever replaced by a file",
                safe="nothing was written",
                remedy="choose another name, or remove it yourself",
            )
        return
    for file in [path] if chosen == "torch" else [path, values_file(path)]:
        if os.path.lexists(file) and not may_overwrite:
            raise taken(file)


def _entries(checkpoint: "Checkpoint", parsed: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The entries to export and all that there are."""
    from lastgood.runtime.state import is_reserved

    there = (
        list(checkpoint.part(parsed.rank or 0).entries) if (parsed.rank or 0) < checkpoint.manifest.world_size else []
    )
    if parsed.entry:
        return list(dict.fromkeys(parsed.entry)), there
    return [name for name in there if parsed.all_entries or not is_reserved(name)], there


def _write(export: "Export", path: Path, chosen: Format, overwrite: bool) -> tuple[list[Path], list[str]]:
    from lastgood.store import export as to

    if chosen == "dcp":
        from lastgood.frameworks.torch_export import write_dcp

        return [path], write_dcp(export, path)
    if chosen == "torch":
        from lastgood.frameworks.torch_export import write_torch

        return [path], to.write_file(export, path, write_torch, overwrite=overwrite, with_values=False)
    write = to.write_safetensors
    if chosen == "npz":
        from lastgood.frameworks.numpy_export import write_npz as write
    changed = to.write_file(export, path, write, overwrite=overwrite, with_values=True)
    return [path, to.values_file(path)] if to.has_values(export) else [path], changed


def _answer(export: "Export", chosen: Format, files: list[Path], changed: list[str], job: str) -> "ExportAnswer":
    from lastgood.cli.answers import ExportAnswer
    from lastgood.cli.output import plain

    return ExportAnswer(
        job=plain(job),
        name=export.checkpoint.name,
        format=chosen,
        files=[plain(str(file)) for file in files],
        arrays=len(export.arrays),
        bytes=export.nbytes,
        entries=list(export.entries),
        left_out=export.left_out,
        changed=changed,
    )


def _text(answer: "ExportAnswer") -> list[str]:
    from lastgood.cli import output
    from lastgood.core import units

    lines = [f"{answer.name} -> {answer.files[0]}"]
    lines += output.wrap(
        f"  {answer.arrays} arrays, {units.byte_size(answer.bytes)}: {', '.join(answer.entries)}", indent="    "
    )
    lines += [f"  other values: {file}" for file in answer.files[1:]]
    if answer.left_out:
        lines += output.wrap(f"  left out: {', '.join(answer.left_out)}", indent="    ")
    for change in answer.changed:
        lines += output.wrap(f"  {change}", indent="    ")
    return lines
