"""What is taken for a whole file of RELION, and what is not."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.apps.relion_files import (
    NotWholeError,
    Particles,
    check_end,
    check_images,
    complaint,
    find_iterations,
    read_optimiser,
    read_particles,
)

ROWS = [f"{number:06d}@some/particles.mrcs one.mrc            1     -15.10283 \n" for number in range(1, 31)]
HEAD = (
    "# version 30001\n\ndata_optics\n\nloop_ \n_rlnOpticsGroupName #1 \n_rlnOpticsGroup #2 \n one 1 \n \n\n"
    "# version 30001\n\ndata_particles\n\nloop_ \n_rlnImageName #1 \n_rlnMicrographName #2 \n_rlnOpticsGroup #3 \n"
    "_rlnAnglePsi #4 \n"
)
TABLE = (HEAD + "".join(ROWS) + " \n").encode()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "run_it001_data.star"


def what_is_left(path: Path, data: bytes) -> Particles | None:
    path.write_bytes(data)
    try:
        check_end(str(path))
        return read_particles(str(path))
    except NotWholeError:
        return None


@given(at=st.integers(0, len(TABLE) - 1))
def test_a_table_that_is_cut_anywhere_is_never_taken_for_the_whole(path: Path, at: int) -> None:
    whole = what_is_left(path, TABLE)
    assert whole is not None and whole.count == len(ROWS)
    assert what_is_left(path, TABLE[:at]) != whole


@given(order=st.permutations(range(len(ROWS))))
def test_particles_in_another_order_are_the_same_particles(path: Path, order: list[int]) -> None:
    shuffled = HEAD + "".join(ROWS[i] for i in order) + " \n"
    assert what_is_left(path, shuffled.encode()) == what_is_left(path, TABLE)


@given(lost=st.integers(0, len(ROWS) - 1), in_its_place=st.integers(0, len(ROWS) - 1))
def test_other_particles_are_others(path: Path, lost: int, in_its_place: int) -> None:
    rows = list(ROWS)
    rows[lost] = rows[in_its_place]
    is_same = what_is_left(path, (HEAD + "".join(rows) + " \n").encode()) == what_is_left(path, TABLE)
    assert is_same == (lost == in_its_place)


@given(size=st.integers(0, 1024 + 4 * 3 * 5 * 7 + 9))
def test_images_of_any_other_size_than_the_header_says_are_refused(path: Path, size: int) -> None:
    whole = struct.pack("<4i", 3, 5, 7, 2) + bytes(1008 + 4 * 3 * 5 * 7)
    images = path.with_name("classes.mrcs")
    images.write_bytes((whole + bytes(9))[:size])
    if size == len(whole):
        check_images(str(images))
    else:
        with pytest.raises(NotWholeError):
            check_images(str(images))


def test_iterations_are_found_by_the_name_of_the_run_only(tmp_path: Path) -> None:
    for name in (
        "run_it000_optimiser.star",
        "run_it002_optimiser.star",
        "run_it010_data.star",
        "run_it1000_half1_class001.mrc",
        "run_it003_optimiser.star.attempt-1",
        "run_ct8_it009_optimiser.star",
        "rerun_it008_optimiser.star",
        "run_data.star",
    ):
        (tmp_path / name).touch()
    found = find_iterations(str(tmp_path / "run"))
    assert [iteration.number for iteration in found] == [1000, 10, 2]
    assert found[1].optimiser == str(tmp_path / "run_it010_optimiser.star")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("_rlnCurrentIteration x\n_rlnNumberOfIterations 25\n \n", "invalid literal"),
        ("_rlnNumberOfIterations 25\n \n", "has no _rlnModelStarFile"),
        ("", "is empty"),
        (" \n", "the end of run_it001_optimiser.star is missing"),
    ],
)
def test_what_is_no_optimiser_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "run_it001_optimiser.star"
    rest = "_rlnModelStarFile a\n_rlnExperimentalDataStarFile b\n_rlnOrientSamplingStarFile c\n" if "x" in text else ""
    path.write_text(rest + text)
    with pytest.raises(NotWholeError, match=words):
        read_optimiser(str(path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "ERROR: \nMetaDataTable::read: File a.star does not exist\n",
            "MetaDataTable::read: File a.star does not exist",
        ),
        ("ERROR: \nERROR: no folder!\n=== Backtrace  ===\n==\nERROR: \nERROR: no folder!\n", "no folder!"),
        (" Expectation iteration 4 of 6\n", ""),
        ("", ""),
    ],
)
def test_its_error_is_found(words: str, said: str) -> None:
    assert complaint(words) == said
