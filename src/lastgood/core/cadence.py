"""How often ranks that work together agree. Pure."""

_AGREEMENT_S = 0.05
_MOST_APART = 16


def safe_points_apart(seconds: float) -> int:
    """How many safe points of ranks that work together may pass from one agreement to the next, when they
    come every so many seconds.

    An agreement takes a fraction of a millisecond, and ranks wait for each other in it. Loops with long steps
    agree at each of them; those with short ones so rarely that it costs them nothing, but never so rarely
    that a loop which suddenly becomes slow would not hear of a signal for long.

    >>> safe_points_apart(2.0), safe_points_apart(0.01), safe_points_apart(0.0001)
    (1, 5, 16)
    """
    return max(1, min(_MOST_APART, int(_AGREEMENT_S / max(seconds, 1e-6))))
