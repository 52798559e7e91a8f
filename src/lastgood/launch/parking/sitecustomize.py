"""Runs while the interpreter of a standby starts, and parks it there until its launcher needs it.

Python imports `sitecustomize` when it is ready and before it looks at its script. A process that waits here is
therefore a cold start that has not come to its script yet: when this module is done, the interpreter goes on as it
always does. Nothing has to be imitated, and nothing of this module is left.

It belongs to no package and imports nothing that a bare interpreter has not loaded. Any error must end the process:
Python would pass over it, and run the script beside the attempt that still lives.

The variable LASTGOOD_PARK says in which of two lives the process is, and gives two descriptors: a socket to the
launcher, and the plan. In its first life the process runs `-c` and has nothing to lose: that proves that this
interpreter, with these options, does come by here. Only then does it become the command, by exec.
"""

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARK = "LASTGOOD_PARK"
_nice = os.getpriority(os.PRIO_PROCESS, 0)
_NICER = 10
"""A tenth of what others get where there is not enough for all: on a busy machine, too, it is ready some time."""

_TWISTER = 624
"""Words of a Mersenne Twister. Python's stands there when it is seeded and unused; NumPy's at the word before, or there.
"""

_SEARCHED_BYTES = 256 * 1024 * 1024
"""Native libraries of more than this in all are not searched for the name of a variable."""

_BINDS_AT_IMPORT = ("mpi4py.MPI", "pycuda.autoinit")
"""Modules whose import joins a running job, or takes a device."""


class _Refused(BaseException):
    """Why this process cannot stand in for a cold start."""


class _Reads(dict):  # type: ignore[type-arg]
    """The data of `os.environ` while modules are imported; remembers what they read."""

    def __init__(self, data: "dict[bytes, bytes]") -> None:
        super().__init__(data)
        self.names: set[bytes] = set()
        self.is_listed = False

    def __getitem__(self, name: bytes) -> bytes:
        self.names.add(name)
        value: bytes = super().__getitem__(name)
        return value

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.is_listed = True
        return super().__iter__()


class _Guard:
    """A finder before all others. It finds what is the program's own, so that nothing of that runs here."""

    def __init__(self, installed: "tuple[str, ...]") -> None:
        self._installed = installed
        self._found = ""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        spec = _path_finder().find_spec(name, path, target)
        if spec is None or not spec.has_location or spec.origin.startswith(self._installed):
            return None
        spec.loader = self
        return spec

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return None

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        # Noted as well, because a module may catch everything.
        self._found = module.__spec__.origin
        self.check()

    def check(self) -> None:
        if self._found:
            raise _Refused(f"an installed module imports {self._found}, which is the program's own")


def _path_finder() -> "Any":
    return sys.modules["_frozen_importlib_external"].PathFinder


def _park(control: int, plan_fd: int, *, may_be_nice: bool) -> "BaseException | None":
    """Returns when this process is to become the command; what the other `sitecustomize` raised, if it did."""
    plan = marshal.loads(_read_all(plan_fd))
    score = _step_back(is_nice=may_be_nice)
    failure = _restore_start(plan["environment"])
    _import_as_script(plan)
    given = dict(plan["environment"])
    added = [(k, v) for k, v in os.environb.items() if given.get(k) != v]
    removed = [k for k in given if k not in os.environb]
    _step_forward()

    os.write(control, b"ready")
    if not os.read(control, 16):
        os._exit(0)  # the launcher is gone
    _write("oom_score_adj", score)
    if _read("oom_score_adj") != score:
        os._exit(3)
    _set_environment([*((k, v) for k, v in marshal.loads(_read_all(plan_fd)) if k not in removed), *added])
    for finder in sys.path_importer_cache.values():
        # Files may have come since; what a finder has listed it takes for all there is.
        if finder is not None and hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    os.close(plan_fd)
    os.write(control, b"going")
    os.close(control)
    return failure


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


def _places() -> "tuple[str, ...]":
    """Beginnings of the paths of installed modules: the standard library, site-packages, and lastgood itself."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = [os.path.dirname(os.__file__), package]
    found += [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    return tuple(entry + os.sep for entry in found)


def _import_as_script(plan: "dict[str, Any]") -> None:
    """Import what the plan says, as the script would; then take away all that belongs to the script."""
    modules: list[tuple[str, str]] = [*plan["first"], *plan["later"]]
    main, installed, descriptors = vars(sys.modules["__main__"]), _places(), _descriptors()
    already, saved_main, saved_argv = set(sys.modules), dict(main), list(sys.argv)
    width = _imitate_script(plan["main_file"])
    argv, path = list(sys.argv), list(sys.path)
    guard = _Guard(installed)
    sys.meta_path.insert(0, guard)
    _import_all(plan["first"], installed)
    _import_later(plan, installed)
    sys.meta_path.remove(guard)
    guard.check()
    _check_modules(dict(modules), already, installed)
    if opened := [path for number, path in _descriptors().items() if number not in descriptors]:
        raise _Refused(f"an imported module keeps {opened[0]} open")
    if sys.argv != argv or sys.path[: len(path)] != path or main.keys() - saved_main.keys() - {"__file__"}:
        raise _Refused("an imported module changes sys.argv, the beginning of sys.path, or __main__")
    main.clear()
    main.update(saved_main)
    sys.argv[:] = saved_argv
    del sys.path[:width]


def _imitate_script(main_file: str) -> int:
    """What imports can see of the script; how many entries it adds to sys.path.

    A directory or an archive as a script is left to cold starts.
    """
    is_module = sys.argv[0] == "-m"
    if not is_module and not os.path.isfile(sys.argv[0]):
        raise _Refused(f"{sys.argv[0]} is no file")
    sys.modules["__main__"].__file__ = main_file
    directory = os.getcwd() if is_module else os.path.dirname(os.path.realpath(sys.argv[0]))
    if is_module:
        sys.argv[0] = main_file
    if sys.flags.safe_path:
        return 0
    sys.path.insert(0, directory)
    return 1


def _import_all(modules: "list[tuple[str, str]]", installed: "tuple[str, ...]") -> None:
    site = sys.modules["site"]
    if site.ENABLE_USER_SITE and _path_finder().find_spec("usercustomize"):
        raise _Refused("there is a usercustomize, which has to run before any import")
    for name, file in modules:
        if file and not file.startswith(installed):
            continue
        if name in _BINDS_AT_IMPORT:
            raise _Refused(f"importing {name} has effects outside of the process")
        try:
            __import__(name)
        except Exception as error:
            raise _Refused(f"{name} cannot be imported ahead: {type(error).__name__}: {error}") from error


def _check_modules(wanted: "dict[str, str]", already: "set[str]", installed: "tuple[str, ...]") -> None:
    """The program must find the same modules, and none of its own may have been imported."""
    for name, module in list(sys.modules.items()):
        spec = vars(module).get("__spec__") if isinstance(module, type(sys)) else None
        if name in already or spec is None or not spec.has_location or spec.name != name:
            continue
        if not spec.origin.startswith(installed):
            raise _Refused(f"an installed module imports {spec.origin}, which is the program's own")
        if wanted.get(name, spec.origin) != spec.origin:
            raise _Refused(f"{name} is found in {spec.origin}, and by the program in {wanted[name]}")


def _import_later(plan: "dict[str, Any]", installed: "tuple[str, ...]") -> None:
    """Import what the program imports after it has done something. Nothing of that may be seen by these modules."""
    random_numbers, libraries = _random_numbers(), _libraries()
    data = os.environ._data  # type: ignore[attr-defined]
    reads = os.environ._data = os.environb._data = _Reads(data)  # type: ignore[attr-defined]
    _import_all(plan["later"], installed)
    data.clear()
    data.update(reads.items())
    os.environ._data = os.environb._data = data  # type: ignore[attr-defined]

    given = dict(plan["environment"])
    loaded = sorted(_libraries() - libraries)
    for name, value in plan["changed"].items():
        if os.environb.get(name) == value:
            continue  # it was a module
        is_read = name in reads.names or (reads.is_listed and name not in given)
        if is_read or _is_named_in(loaded, name):
            text = os.fsdecode(name)
            raise _Refused(
                f"the program sets {text}, which modules that it imports afterwards may read; "
                f"set {text} outside of the program, or import everything first"
            )
    now = _random_numbers()
    for source, state in now.items():
        if state != random_numbers.get(source, ""):
            raise _Refused(
                f"a module that is not imported at the very beginning takes random numbers ({source}); "
                "import everything before anything else is done"
            )


def _random_numbers() -> "dict[str, object]":
    """The state of each source, empty while it has only been seeded by itself."""
    found: dict[str, object] = {}
    random, numpy, torch = (sys.modules.get(name) for name in ("random", "numpy.random", "torch"))
    if random is not None:
        found["random"] = random.getstate() if random.getstate()[1][-1] != _TWISTER else ""
    if numpy is not None:
        _, words, position, *rest = numpy.get_state()
        found["numpy.random"] = (words.tobytes(), position, rest) if position < _TWISTER - 1 else ""
    if torch is not None:
        fresh = torch.Generator().manual_seed(torch.initial_seed()).get_state()
        state = torch.get_rng_state()
        found["torch"] = "" if torch.equal(state, fresh) else state.numpy().tobytes()
    return found


def _libraries() -> "set[bytes]":
    """Native libraries that are loaded."""
    with open("/proc/self/maps", "rb") as maps:
        return {line.split(None, 5)[5].rstrip(b"\n") for line in maps if b".so" in line}


def _is_named_in(libraries: "list[bytes]", name: bytes) -> bool:
    """Whether native code that is loaded could look for this variable."""
    if sum(os.path.getsize(library) for library in libraries) > _SEARCHED_BYTES:
        return True
    for library in libraries:
        end = b""
        with open(library, "rb") as file:
            while piece := file.read(1024 * 1024):
                if name in end + piece:
                    return True
                end = piece[-len(name) :]
    return False


def _descriptors() -> "dict[str, str]":
    """What is open, by number."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the list itself, or a thread has closed it
    return found


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
    raise _Refused("the kernel does not give it back its share of the CPU")


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
    life, control, plan, *rest = told.split(":")
    if life == "first":
        os.environ[PARK] = f"second:{control}:{plan}:{_can_be_nice():d}"
        return None
    try:
        return _park(int(control), int(plan), may_be_nice=rest == ["1"])
    except BaseException as reason:
        text = str(reason) if isinstance(reason, _Refused) else f"{type(reason).__name__}: {reason}"
        os.write(int(control), os.fsencode(f"no: {text}")[:2000])
        raise


# A second interpreter within the process comes by here too, without the variable.
try:
    _failure = _live(os.environ[PARK]) if PARK in os.environ else _give_way()
except BaseException:  # noqa: BLE001
    os._exit(3)
if _failure is not None:
    raise _failure
