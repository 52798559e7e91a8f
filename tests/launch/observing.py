"""A program that writes down everything that it can see of its own start, and ends as an attempt with a crash would."""

OBSERVER = """
import sys
at_start = {"modules": sorted(sys.modules), "main": sorted(globals()), "argv": list(sys.argv), "path": list(sys.path)}
at_start["frames"] = sys._getframe().f_back is None or sys._getframe().f_back.f_code.co_filename
import os
at_start["environment"] = [k + "=" + v for k, v in os.environ.items()]
import atexit, ctypes, fcntl, gc, json, locale, multiprocessing, pickle, re, resource, signal, threading, time, warnings
from pathlib import Path
import numpy as np
import lastgood
IMPORTS

TOKEN = object()


def in_child(queue, callable_, value):
    import __main__
    queue.put((callable_(value), __name__, __main__.__name__, sys.argv, sys.path, os.path.basename(__file__)))


def double(value):
    return 2 * value


class Point:
    def __init__(self, x):
        self.x = x


def kernel():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getenv.restype = ctypes.c_char_p
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    kept = ("Umask", "TracerPid", "Groups", "NStgid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm",
            "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed", "THP_enabled", "Name")
    seen = {name: status[name].strip() for name in kept if name in status and name != "NStgid"}
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    # state, ppid, pgrp, session, tty, tpgid ... priority, nice ... policy
    seen |= {"tty": stat[4], "priority": stat[15], "nice": stat[16], "rt": stat[37], "policy": stat[38]}
    seen["leads"] = [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()]
    seen["parent"] = os.getppid() == int(os.environ["LASTGOOD_LAUNCHER_PID"])
    for name in ("cmdline", "comm", "oom_score_adj", "timerslack_ns", "coredump_filter", "personality", "cgroup", "limits",
                 "loginuid", "sessionid"):
        if os.path.exists("/proc/self/" + name):
            seen[name] = open("/proc/self/" + name, errors="surrogateescape").read()
    seen["autogroup"] = open("/proc/self/autogroup").read().partition(" ")[2] if os.path.exists("/proc/self/autogroup") else ""
    for name in ("cwd", "exe", "root"):
        seen[name] = os.readlink("/proc/self/" + name)
    number = ctypes.c_int()
    libc.prctl(2, ctypes.byref(number))
    seen["parent death signal"] = number.value
    seen["prctl"] = [libc.prctl(option, 0, 0, 0, 0) for option in (3, 7, 27, 30, 39, 42)]
    libc.prctl(37, ctypes.byref(number))
    seen["subreaper"] = number.value
    seen["io priority"] = libc.syscall(252, 1, 0)
    seen["getenv"] = {name: str(libc.getenv(name.encode())) for name in os.environ if not name.startswith("LASTGOOD_")}
    seen["c threads"] = len(os.listdir("/proc/self/task"))
    descriptors = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue  # the listing itself
        flags = re.search("flags:\\\\s*(\\\\d+)", open("/proc/self/fdinfo/" + fd).read())[1]
        descriptors[fd] = [re.sub("\\\\[.*", "", link), flags]
    seen["descriptors"] = descriptors
    try:
        os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        seen["terminal"] = error.errno
    return seen


def python():
    main = sys.modules["__main__"]
    seen = {name: repr(getattr(sys, name)) for name in (
        "orig_argv", "flags", "warnoptions", "_xoptions", "executable", "prefix", "base_prefix", "exec_prefix",
        "dont_write_bytecode", "pycache_prefix", "float_repr_style", "byteorder", "implementation", "platlibdir",
        "meta_path", "path_hooks", "excepthook", "displayhook", "unraisablehook")}
    seen = {name: re.sub("0x[0-9a-f]+", "0x", text) for name, text in seen.items()}
    seen["limits"] = [sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdlopenflags(), str(sys.gettrace()),
                      str(sys.getprofile()), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()]
    for name in ("__name__", "__doc__", "__package__", "__spec__", "__file__", "__cached__", "__annotations__"):
        seen["main " + name] = repr(getattr(main, name, "no such"))
    seen["main __spec__"] = re.sub("0x[0-9a-f]+", "0x", seen["main __spec__"])
    seen["main __loader__"] = type(main.__loader__).__name__
    seen["builtins"] = type(__builtins__).__name__
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        stream = getattr(sys, name)
        seen[name] = [stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering,
                      stream.write_through, stream.fileno(), type(stream.buffer).__name__]
    seen["gc"] = [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count(), len(gc.callbacks)]
    seen["locale"] = locale.setlocale(locale.LC_ALL)
    seen["zone"] = time.tzname
    seen["filters"] = [re.sub("0x[0-9a-f]+", "0x", repr(f)) for f in warnings.filters]
    seen["threads"] = [t.name for t in threading.enumerate()]
    seen["main thread"] = [threading.main_thread().ident == threading.get_ident(), threading.get_native_id() == os.getpid()]
    seen["signals"] = {n: repr(signal.getsignal(n)) for n in range(1, 32) if n not in (9, 19)}
    seen["signals"] = {n: re.sub("0x[0-9a-f]+", "0x", text) for n, text in seen["signals"].items()}
    seen["mask"] = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    seen["wakeup"] = signal.set_wakeup_fd(-1)
    seen["resources"] = [resource.getrlimit(n) for n in range(16)]
    seen["affinity"] = sorted(os.sched_getaffinity(0))
    seen["start method"] = multiprocessing.get_start_method(allow_none=True)
    seen["pickle"] = [type(pickle.loads(pickle.dumps(Point(3)))).__module__, pickle.dumps(double).count(b"__main__")]
    seen["importer cache"] = sorted(sys.path_importer_cache)
    seen["modules"] = sorted(sys.modules)
    seen["environment"] = [k + "=" + v for k, v in os.environ.items()]
    seen["same data"] = os.environ._data is os.environb._data
    seen["input"] = sys.stdin.read()
    return seen


def main():
    attempt = int(os.environ["LASTGOOD_ATTEMPT"])
    x = np.zeros(3)
    run = lastgood.Run({"x": x}, every=1)
    for step in run.steps(6):
        x += step
        if step == 3 and attempt == 1:
            wait_for_standby()
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 5:
            observe()
            end()


def wait_for_standby():
    journal = Path(os.environ["LASTGOOD_JOB"], "attempts", "0001.events.jsonl")
    end = time.monotonic() + 180
    while "LASTGOOD_STANDBY" in os.environ and b'"kind":"standby"' not in journal.read_bytes():
        if time.monotonic() > end:
            sys.exit("no standby")
        time.sleep(0.02)


def observe():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue, double, 21))
    child.start()
    seen = {"start": at_start, "kernel": kernel(), "python": python(), "child": queue.get(timeout=180)}
    child.join()
    seen["child ended"] = child.exitcode
    with open(os.environ["OBSERVATIONS"], "w") as file:
        json.dump(seen, file, indent=1, sort_keys=True)


def end():
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (time.sleep(0.2), print("a thread's end is waited for"))).start()
    warnings.warn("seen once")
    error = KeyError("an end with a trace")
    error.add_note("with a note")
    try:
        1 / 0
    except ZeroDivisionError as cause:
        raise error from cause


if __name__ == "__main__":
    main()
"""
