"""What two jobs have come to, bit for bit."""

from pathlib import Path
from typing import Any

import lastgood
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint


def final_state(path: Path | str) -> dict[int, tuple[dict[str, Any], dict[str, bytes]]]:
    """Skeletons and arrays of the newest checkpoint, by rank: everything that a resume would put back."""
    job = open_job(path)
    newest = next(c for c in list_checkpoints(job) if c.is_committed)
    checkpoint = open_checkpoint(job, newest.name)
    found = {}
    for rank in range(checkpoint.manifest.world_size):
        state = rank_state(checkpoint, rank)
        arrays = {n: bytes(checkpoint.read(held.rank, [n])[n]) for n, held in state.arrays.items()}
        found[rank] = (state.entries, arrays)
    return found


def assert_same_end(path: Path, reference: Path, ranks: int = 1) -> None:
    """Both jobs are finished, at the same step, with the same state and the same log on every rank."""
    mine, other = open_job(path).finished(), open_job(reference).finished()
    assert mine is not None
    assert other is not None
    assert mine.step == other.step
    for rank in range(ranks):
        log, expected = lastgood.read_log(path, rank), lastgood.read_log(reference, rank)
        assert log.keys() == expected.keys() == set(range(1, mine.step + 1))
        different = [step for step in log if log[step] != expected[step]]
        assert not different, f"rank {rank}, step {different[0]}: {log[different[0]]}, not {expected[different[0]]}"
    states, expected_states = final_state(path), final_state(reference)
    assert states.keys() == expected_states.keys() == set(range(ranks))
    for rank in states:
        entries, arrays = states[rank]
        expected_entries, expected_arrays = expected_states[rank]
        assert arrays.keys() == expected_arrays.keys()
        different_names = [name for name in arrays if arrays[name] != expected_arrays[name]]
        assert not different_names, f"rank {rank}: {different_names} differ"
        assert entries == expected_entries
