"""Runs while the interpreter of a standby starts, and parks it there until its launcher needs it.

Python imports `sitecustomize` when it is ready and before it looks at its script. A process that waits here is
therefore a cold start that has not come to its script yet: when this module is done, the interpreter goes on as it
always does. Nothing has to be imitated, and nothing of this module is left.

It belongs to no package and imports nothing that a bare interpreter has not loaded. Any error must end the process:
Python would pass over it, and run the script beside the attempt that still lives.

The variable LASTGOOD_PARK says in which of two lives the process is, and where it finds its launcher and the plan: by
two descriptors, or, if it is a rank that another process starts, by files with its number in a directory. In its first
life the process runs `-c` and has nothing to lose: that proves that this interpreter, with these options, does come by
here. Only then does it become the command, by exec.
"""

import marshal
import os
import sys

PARK = "LASTGOOD_PARK"
_nice = os.getpriority(os.PRIO_PROCESS, 0)
_NICER = 10
"""A tenth of what others get where there is not enough for all: on a busy machine, too, it is ready some time."""


def _park(hear_fd: int, say_fd: int, plan_fd: int, *, may_be_nice: bool) -> "BaseException | None":
    """Returns when this process is to go on; what the other `sitecustomize` raised, if it did."""
    # Before the path to it is taken away; the module with it.
    import lastgood_parking  # type: ignore[import-not-found]

    del sys.modules["lastgood_parking"]
    plan = marshal.loads(_read_all(plan_fd))
    given = dict(plan["environment"])
    own = [(k, v) for k, v in _initial_environment() if given.get(k) != v and not _is_of_launcher(k)]
    plan["environment"] = _merged(plan["environment"], own)
    score = _step_back(is_nice=may_be_nice)
    failure = _restore_start(plan["environment"])
    lastgood_parking.import_as_script(plan)
    given = dict(plan["environment"])
    added = [(k, v) for k, v in os.environb.items() if given.get(k) != v]
    removed = [k for k in given if k not in os.environb]
    _step_forward()

    os.write(say_fd, b"ready\n")
    if not os.read(hear_fd, 16):
        os._exit(0)  # the launcher is gone
    _write("oom_score_adj", score)
    if _read("oom_score_adj") != score:
        os._exit(3)
    new = _merged(marshal.loads(_read_all(plan_fd)), own)
    _set_environment([*((k, v) for k, v in new if k not in removed), *added])
    for finder in sys.path_importer_cache.values():
        # Files may have come since; what a finder has listed it takes for all there is.
        if finder is not None and hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    os.write(say_fd, b"going\n")
    for fd in {hear_fd, say_fd, plan_fd}:
        os.close(fd)
    return failure


def _initial_environment() -> "list[tuple[bytes, bytes]]":
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return [(name, value) for name, equals, value in (entry.partition(b"=") for entry in entries) if equals]


def _is_of_launcher(name: bytes) -> bool:
    return name.startswith(b"LASTGOOD_") or name == b"PYTHONPATH"


def _merged(given: "list[tuple[bytes, bytes]]", own: "list[tuple[bytes, bytes]]") -> "list[tuple[bytes, bytes]]":
    """What the launcher gives, and what another has given to this process alone (torchrun to a rank)."""
    return list({**dict(given), **dict(own)}.items())


def _restore_start(environment: "list[tuple[bytes, bytes]]") -> "BaseException | None":
    """As if this module and the variables that led to it had never been; the other `sitecustomize` has its turn."""
    given = dict(environment)
    for name in (b"PYTHONPATH", PARK.encode()):
        os.environb.pop(name, None)
        if name in given:
            os.environb[name] = given[name]
    return _give_way()


def _give_way() -> "BaseException | None":
    """Import the `sitecustomize` that this one stood before, under its name; what it raised is for later."""
    here = os.path.dirname(__file__)
    sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _step_back(*, is_nice: bool) -> str:
    """Stand behind everybody for the CPU, and be the first whom a lack of memory ends; the score that this took."""
    score = _read("oom_score_adj")
    _write("oom_score_adj", "1000")
    _write("autogroup", str(_NICER))
    if is_nice:
        os.setpriority(os.PRIO_PROCESS, 0, _nice + _NICER)
    return score


def _step_forward() -> None:
    """Imports are done: from here on it only waits, and what comes then must not be slower."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.setpriority(os.PRIO_PROCESS, int(thread), _nice)
        except ProcessLookupError:
            continue  # it has ended
    for _ in range(100):
        try:
            return _write("autogroup", "0")
        except BlockingIOError:
            # The kernel takes ten of these a second, from all processes.
            sys.modules["time"].sleep(0.1)
    raise RuntimeError("the kernel does not give it back its share of the CPU")


def _can_be_nice() -> bool:
    """Whether niceness can be undone, which takes a privilege; tried by a child."""
    child = os.fork()
    if child == 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, _nice + 1)
            os.setpriority(os.PRIO_PROCESS, 0, _nice)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _read(name: str) -> str:
    try:
        with open(f"/proc/self/{name}") as file:
            return file.read()
    except OSError:
        return ""


def _write(name: str, value: str) -> None:
    """Where the kernel has no such thing, or does not let us, nothing changes."""
    try:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(value)
    except (FileNotFoundError, PermissionError):
        pass


def _set_environment(entries: "list[tuple[bytes, bytes]]") -> None:
    """In this order, as a new process would have it."""
    for name in list(os.environb):
        del os.environb[name]
    for name, value in entries:
        os.environb[name] = value


def _read_all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _live(told: str) -> "BaseException | None":
    life, _, rest = told.partition(":")
    if life == "first":
        os.environ[PARK] = f"second:{_can_be_nice():d}:{rest}"
        return None
    nice, _, place = rest.partition(":")
    if not place.startswith("/"):
        hear_fd, plan_fd = map(int, place.split(":"))
        return _park_or_tell(hear_fd, hear_fd, plan_fd, may_be_nice=nice == "1")
    if "LOCAL_RANK" not in os.environ:
        # It starts the ranks, who come by here too.
        return _give_way()
    base = f"{place}/rank-{int(os.environ['RANK']):05d}"
    hear_fd, say_fd = os.open(f"{base}.go", os.O_RDONLY | os.O_NONBLOCK), os.open(f"{base}.said", os.O_WRONLY)
    os.set_blocking(hear_fd, True)
    return _park_or_tell(hear_fd, say_fd, os.open(f"{base}.plan", os.O_RDONLY), may_be_nice=nice == "1")


def _park_or_tell(hear_fd: int, say_fd: int, plan_fd: int, *, may_be_nice: bool) -> "BaseException | None":
    try:
        return _park(hear_fd, say_fd, plan_fd, may_be_nice=may_be_nice)
    except BaseException as reason:
        text = str(reason) if type(reason).__name__ == "Refused" else f"{type(reason).__name__}: {reason}"
        os.write(say_fd, os.fsencode("no: " + text.replace("\n", " "))[:2000])
        raise


# A second interpreter within the process comes by here too, without the variable.
try:
    _failure = _live(os.environ[PARK]) if PARK in os.environ else _give_way()
except BaseException:  # noqa: BLE001
    os._exit(3)
if _failure is not None:
    raise _failure
