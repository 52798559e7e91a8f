"""Where the time went, for one job or for several: a bar, a table, the ETTR with its formula; and the key of the colours.
Pure."""

from collections.abc import Sequence

from lastgood.core.units import duration
from lastgood.report import strips, words
from lastgood.report.markup import Markup, element, table, together
from lastgood.report.model import MEANINGS, Ettr, Share
from lastgood.report.words import value


def where_time_went(
    shares: Sequence[Share], ettr: Ettr | None, *, title: str, caption: str, prefix: str
) -> Markup | None:
    """None where no time has passed."""
    seen = [share for share in shares if share.seconds > 0]
    if not seen:
        return None
    has_gpus = any(share.gpu_hours is not None for share in seen)
    head = ["Kind", "Time", "Share", *(["GPU-hours"] if has_gpus else []), "Which is"]
    label = "Where the time went: " + ", ".join(f"{share.kind} {words.percent(share.share)}" for share in seen)
    return together(
        [
            element("h3", title),
            strips.bar({share.kind: share.seconds for share in seen}, label=label),
            table(
                caption,
                head,
                [_row(share, prefix, has_gpus=has_gpus) for share in seen],
                numbers=range(1, len(head) - 1),
            ),
            _formula(ettr) if ettr is not None else None,
        ]
    )


def _row(share: Share, prefix: str, *, has_gpus: bool) -> list[object]:
    hours = [words.NOTHING if share.gpu_hours is None else f"{share.gpu_hours:,.2f}"] if has_gpus else []
    return [
        element("span", swatch(share.kind), share.kind, class_="nowrap"),
        value(share.seconds, duration(share.seconds), f"{prefix}{share.kind}"),
        words.percent(share.share),
        *hours,
        element("div", MEANINGS[share.kind], class_="text"),
    ]


def _formula(ettr: Ettr) -> Markup:
    running = ettr.running_share
    return element(
        "div",
        element("div", element("b", "ETTR"), f" = {ettr.formula.removeprefix('ETTR = ')}"),
        element("div", ettr.with_numbers),
        element("div", f"Of the time in which an attempt ran: {words.percent(running)}", class_="quiet")
        if running is not None
        else None,
        *(element("div", doubt, class_="quiet") for doubt in ettr.doubts),
        class_="formula",
    )


def swatch(kind: str) -> Markup:
    """The colour of a kind of time; its name stands beside it."""
    return element("span", class_=f"swatch k-{kind}", aria_hidden="true")
