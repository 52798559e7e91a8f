"""Linux's signals by number and name. Pure: the `signal` module belongs to the layers that send them."""

SIGHUP, SIGINT, SIGBUS, SIGKILL, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT, SIGSTOP = 1, 2, 7, 9, 10, 12, 15, 18, 19

_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    18: "SIGCONT",
    19: "SIGSTOP",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}


def signal_name(number: int) -> str:
    """
    >>> signal_name(9), signal_name(50)
    ('SIGKILL', 'signal 50')
    """
    return _NAMES.get(number, f"signal {number}")
