"""Imports ahead of a script, and whether they are what the script would import. Used by `sitecustomize` beside it.

Like that, it imports nothing that a bare interpreter has not loaded.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TWISTER = 624
"""Words of a Mersenne Twister. Python's stands there when it is seeded and unused; NumPy's at the word before, or there.
"""

_SEARCHED_BYTES = 256 * 1024 * 1024
"""Native libraries of more than this in all are not searched for the name of a variable."""

_BINDS_AT_IMPORT = ("mpi4py.MPI", "pycuda.autoinit")
"""Modules whose import joins a running job, or takes a device."""


class Refused(BaseException):
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
            raise Refused(f"an installed module imports {self._found}, which is the program's own")


def _path_finder() -> "Any":
    return sys.modules["_frozen_importlib_external"].PathFinder


def _places() -> "tuple[str, ...]":
    """Beginnings of the paths of installed modules: the standard library, site-packages, and lastgood itself."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = [os.path.dirname(os.__file__), package]
    found += [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    return tuple(entry + os.sep for entry in found)


def import_as_script(plan: "dict[str, Any]") -> None:
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
        raise Refused(f"an imported module keeps {opened[0]} open")
    if sys.argv != argv or sys.path[: len(path)] != path or main.keys() - saved_main.keys() - {"__file__"}:
        raise Refused("an imported module changes sys.argv, the beginning of sys.path, or __main__")
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
        raise Refused(f"{sys.argv[0]} is no file")
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
        raise Refused("there is a usercustomize, which has to run before any import")
    for name, file in modules:
        if file and not file.startswith(installed):
            continue
        if name in _BINDS_AT_IMPORT:
            raise Refused(f"importing {name} has effects outside of the process")
        try:
            __import__(name)
        except Exception as error:
            raise Refused(f"{name} cannot be imported ahead: {type(error).__name__}: {error}") from error


def _check_modules(wanted: "dict[str, str]", already: "set[str]", installed: "tuple[str, ...]") -> None:
    """The program must find the same modules, and none of its own may have been imported."""
    for name, module in list(sys.modules.items()):
        spec = vars(module).get("__spec__") if isinstance(module, type(sys)) else None
        if name in already or spec is None or not spec.has_location or spec.name != name:
            continue
        if not spec.origin.startswith(installed):
            raise Refused(f"an installed module imports {spec.origin}, which is the program's own")
        if wanted.get(name, spec.origin) != spec.origin:
            raise Refused(f"{name} is found in {spec.origin}, and by the program in {wanted[name]}")


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
            raise Refused(
                f"the program sets {text}, which modules that it imports afterwards may read; "
                f"set {text} outside of the program, or import everything first"
            )
    now = _random_numbers()
    for source, state in now.items():
        if state != random_numbers.get(source, ""):
            raise Refused(
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
