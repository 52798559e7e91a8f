"""How much memory may be taken: by the machine, by cgroups of either version, whichever is less."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.keeper.memory import _RESERVE_BYTES, available_bytes

GB = 2**30


class Machine:
    """A stand-in for /proc and /sys below a directory."""

    def __init__(self, root: Path, free: int | None = 8 * GB, groups: str = "0::/\n") -> None:
        self.root = root
        self.write("proc/self/cgroup", groups)
        if free is not None:
            self.write("proc/meminfo", f"MemTotal: 99999999 kB\nMemAvailable: {free // 1024} kB\n")

    def write(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if not isinstance(text, str) else text)

    def v2(self, group: str, limit: object, usage: int, inactive: int = 0, high: object = "max") -> None:
        at = f"sys/fs/cgroup/{group}"
        self.write(f"{at}/memory.max", f"{limit}\n")
        self.write(f"{at}/memory.high", f"{high}\n")
        self.write(f"{at}/memory.current", usage)
        self.write(f"{at}/memory.stat", f"anon 5\ninactive_file {inactive}\nactive_file 7\n")

    def v1(self, group: str, limit: int, usage: int, inactive: int = 0) -> None:
        at = f"sys/fs/cgroup/memory/{group}"
        self.write(f"{at}/memory.limit_in_bytes", limit)
        self.write(f"{at}/memory.usage_in_bytes", usage)
        self.write(f"{at}/memory.stat", f"inactive_file 1\ntotal_inactive_file {inactive}\n")

    def free(self) -> int | None:
        found = available_bytes(self.root)
        return None if found is None else found + _RESERVE_BYTES


def test_a_machine_without_limits_has_what_the_kernel_says(tmp_path: Path) -> None:
    assert Machine(tmp_path).free() == 8 * GB


def test_a_reserve_is_left_and_nothing_is_never_less_than_nothing(tmp_path: Path) -> None:
    assert available_bytes(Machine(tmp_path, free=8 * GB).root) == 8 * GB - _RESERVE_BYTES
    assert available_bytes(Machine(tmp_path / "full", free=1024).root) == 0


def test_a_machine_that_does_not_say_is_not_guessed_at(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    assert available_bytes(Machine(tmp_path, free=None).root) is None


def test_a_limit_of_version_2_counts_with_what_is_used_of_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="0::/job/step\n")
    machine.v2("job/step", "max", 3 * GB)
    machine.v2("job", 4 * GB, 3 * GB)
    assert machine.free() == GB


def test_the_tightest_group_counts_wherever_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="0::/a/b/c\n")
    machine.v2("a/b/c", 7 * GB, 1 * GB)
    machine.v2("a/b", 6 * GB, 4 * GB)
    machine.v2("a", 7 * GB, 2 * GB)
    assert machine.free() == 2 * GB


def test_cache_that_the_kernel_gives_back_is_free(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="0::/job\n")
    machine.v2("job", 4 * GB, 4 * GB, inactive=2 * GB)
    assert machine.free() == 2 * GB


def test_where_a_group_is_slowed_down_is_a_limit_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="0::/job\n")
    machine.v2("job", 6 * GB, GB, high=3 * GB)
    assert machine.free() == 2 * GB
    machine.v2("job", "max", GB, high=2 * GB)
    assert machine.free() == GB


def test_a_limit_of_version_1_counts(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="9:name=systemd:/\n4:memory:/slurm/job_7\n3:cpu,cpuacct:/x\n")
    machine.v1("slurm/job_7", 4 * GB, 3 * GB, inactive=GB // 2)
    machine.v1("slurm", 9223372036854771712, 3 * GB)
    assert machine.free() == GB + GB // 2


def test_memory_among_several_controllers_is_found(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="4:cpuset,memory:/job\n")
    machine.v1("job", 2 * GB, GB)
    assert machine.free() == GB


def test_in_a_container_the_mount_is_the_own_group(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="4:memory:/docker/0123456789\n")
    machine.v1(".", 2 * GB, GB)
    assert machine.free() == GB


def test_a_path_from_outside_of_the_namespace_leads_nowhere_else(tmp_path: Path) -> None:
    machine = Machine(tmp_path, groups="0::/../../other\n")
    machine.v2(".", 3 * GB, GB)
    # What is not below the mount is not ours.
    machine.write("sys/memory.max", 1)
    machine.write("sys/memory.current", 0)
    assert machine.free() == 2 * GB


@pytest.mark.parametrize("text", ["", "\n", "garbage\n", "1:2\n", "0::\n", "::::\n", "4:memory\n"])
def test_a_list_of_groups_that_makes_no_sense_is_no_list(tmp_path: Path, text: str) -> None:
    assert Machine(tmp_path, groups=text).free() == 8 * GB


@pytest.mark.parametrize("name", ["memory.max", "memory.current", "memory.stat"])
@pytest.mark.parametrize("text", ["", "garbage\n", "inactive_file\n", "\n\n"])
def test_a_file_that_makes_no_sense_is_passed_over(tmp_path: Path, name: str, text: str) -> None:
    machine = Machine(tmp_path, groups="0::/job\n")
    machine.v2("job", 2 * GB, GB, inactive=0)
    machine.write(f"sys/fs/cgroup/job/{name}", text)
    assert machine.free() in (8 * GB, GB)


@given(
    free=st.integers(0, 2**45),
    limits=st.lists(st.tuples(st.integers(0, 2**45) | st.none(), st.integers(0, 2**45)), min_size=1, max_size=4),
    is_v2=st.booleans(),
)
def test_never_more_than_any_limit_leaves(
    tmp_path_factory: pytest.TempPathFactory, free: int, limits: list[tuple[int | None, int]], is_v2: bool
) -> None:
    groups = [f"g{'/g' * depth}" for depth in range(len(limits))]
    line = f"0::/{groups[-1]}\n" if is_v2 else f"4:memory:/{groups[-1]}\n"
    machine = Machine(tmp_path_factory.mktemp("machine"), free=free, groups=line)
    rooms = [free // 1024 * 1024]
    for group, (limit, usage) in zip(groups, limits, strict=True):
        if is_v2:
            machine.v2(group, "max" if limit is None else limit, usage)
        else:
            machine.v1(group, 2**63 - 4096 if limit is None else limit, usage)
        if limit is not None:
            rooms.append(limit - usage)
    assert available_bytes(machine.root) == max(0, min(rooms) - _RESERVE_BYTES)
