"""The format page tells the truth: its documents are real ones, its limits and tags those of the code."""

import re
from pathlib import Path

import pytest

from lastgood.core import layout, manifest, tensorfile, tree
from lastgood.core.manifest import Attempt, Finished, Job, Manifest, Mark, Part, StageRecord
from lastgood.core.sealed import seal, unseal
from lastgood.store import attempts, writer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "format.md").read_text(encoding="utf-8")
DOCUMENTS = re.findall(r"^`([\w./-]+)`[^`]*?(?:`[^`\n]+`[^`]*?)*```json\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
KINDS = {
    "job.json": Job,
    "attempts/0003.json": Attempt,
    "manifest.json": Manifest,
    "rank-00000.json": Part,
    "pinned.json": Mark,
    "stages/5d2fa1c07b93e684.json": StageRecord,
    "finished.json": Finished,
}


def test_each_document_has_an_example():
    assert [name for name, _ in DOCUMENTS] == list(KINDS)


@pytest.mark.parametrize(("name", "text"), DOCUMENTS, ids=[name for name, _ in DOCUMENTS])
def test_the_example_is_what_we_would_write(name, text):
    document = unseal(text.encode(), KINDS[name], name)
    assert seal(document) == text.encode()


def test_the_examples_belong_together():
    found = {name: unseal(text.encode(), KINDS[name], name) for name, text in DOCUMENTS}
    checkpoint, part = found["manifest.json"], found["rank-00000.json"]
    manifest.check_manifest(checkpoint, "000000001200-0003", found["job.json"].id)
    manifest.check_part(part, checkpoint, 0)
    assert sum(map(len, tree.array_names(part.entries))) > 0
    text = dict(DOCUMENTS)["rank-00000.json"]
    assert len(text.encode()) == checkpoint.parts[0].bytes


@pytest.mark.parametrize("tag", [*tree._TAGS, "array", "scalar", "dtype", "torch.dtype", "torch.device", "torch.Size"])
def test_every_tag_is_described(tag):
    assert f'"${tag}"' in PAGE


def test_the_limits_are_those_of_the_code():
    assert (layout.FORMAT_VERSION, layout.CONSTANTS_FORMAT) == (1, 2)
    assert layout.MAX_STEP == 10**12 - 1
    assert f"| ranks | {manifest.MAX_RANKS:,} |" in PAGE
    assert f"| attempts of a job | {attempts.MAX_ATTEMPTS:,} |" in PAGE
    assert manifest.MAX_DOCUMENT_BYTES == 256 * 2**20
    assert f"{tensorfile.MAX_HEADER_BYTES:,} bytes" in PAGE
    assert f"4 KiB to {manifest.MAX_BLOCK_BYTES >> 20} MiB; written as {writer.BLOCK_BYTES >> 20} MiB" in PAGE
    assert f"| nesting of the state | {tree.MAX_DEPTH} |" in PAGE


def test_every_name_on_disk_is_in_the_tree():
    for name in (
        layout.JOB_FILE,
        layout.LOCK_FILE,
        layout.LOG_FILE,
        layout.MANIFEST_FILE,
        layout.REJECTED_FILE,
        layout.PINNED_FILE,
        layout.FINISHED_FILE,
        layout.attempt_file(3),
        layout.events_file(3),
        layout.values_file(3, 0),
        layout.checkpoint_name(1200, 3),
        layout.part_file(0),
        layout.data_file(0),
        layout.CONSTANTS_DIR + "/",
        layout.STAGES_DIR + "/" + layout.stage_file("5d2fa1c07b93e684"),
        layout.constants_file("5f1d7a3c0b9e84266d02f3c1a8e75b94", 3),
    ):
        assert name in PAGE
