"""One line of progress from numbers, made to fit. Pure: it knows nothing of terminals."""

from lastgood.core.units import duration

_BAR_CELLS = 20


def progress_line(
    step: int,
    total: int | None,
    steps_per_s: float | None,
    last_good_step: int | None,
    last_good_age_s: float | None,
    width: int,
) -> str:
    """Step, share done, rate, time left and the last good checkpoint, in at most `width` columns.

    What is None is left out. Where the line is too long the bar goes first, then the rate, then the
    share, then the time left; step and last good stay longest, because a reader decides by them.

    >>> progress_line(250, 1000, 2.0, 200, 25.0, 75)
    'step 250/1000  25%  2 steps/s  6 min 15 s left  last good 200, 25 s ago'
    """
    pieces = _pieces(step, total, steps_per_s, last_good_step, last_good_age_s)
    for dropped in ("", "bar", "rate", "share", "left", "good"):
        pieces.pop(dropped, None)
        line = "  ".join(pieces.values())
        if len(line) <= width:
            return line
    return pieces["step"][: max(width, 0)]


def _pieces(
    step: int,
    total: int | None,
    steps_per_s: float | None,
    last_good_step: int | None,
    last_good_age_s: float | None,
) -> dict[str, str]:
    is_total_known = total is not None and total > 0
    pieces = {"step": f"step {step}/{total}" if is_total_known else f"step {step}"}
    if total is not None and is_total_known:
        share = min(max(step / total, 0.0), 1.0)
        filled = int(share * _BAR_CELLS)
        pieces["bar"] = f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}]"
        pieces["share"] = f"{int(share * 100)}%"
    if steps_per_s is not None and steps_per_s > 0:
        pieces["rate"] = _rate(steps_per_s)
        if total is not None and total > step:
            pieces["left"] = f"{duration((total - step) / steps_per_s)} left"
    if last_good_step is None:
        pieces["good"] = "nothing saved yet"
    elif last_good_age_s is None:
        pieces["good"] = f"last good {last_good_step}"
    else:
        pieces["good"] = f"last good {last_good_step}, {duration(max(last_good_age_s, 0.0))} ago"
    return pieces


def _rate(steps_per_s: float) -> str:
    """Steps per second, or seconds per step where a step takes longer than that."""
    if steps_per_s >= 1:
        return f"{steps_per_s:.3g} steps/s" if steps_per_s < 1000 else f"{steps_per_s:.0f} steps/s"
    return f"{duration(1 / steps_per_s)}/step"
