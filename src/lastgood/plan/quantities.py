"""Sizes, rates and sets of bytes per parameter as people write them, with their units. Pure."""

import re

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import duration

_BYTES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_SIZE = re.compile(rf"({_NUMBER})\s*([kKMGTP]?i?B?)\Z")
_PRODUCT = re.compile(rf"({_NUMBER})\s*[x×*]\s*({_NUMBER})\Z")
_FAILURES = re.compile(rf"({_NUMBER})\s*(?:per\s+|/)\s*({_NUMBER})?\s*(nd|node-days?|nh|node-hours?)\Z")
_FREQUENCY = re.compile(rf"({_NUMBER})\s*(?:per\s+|/)\s*(day|d|week|w|month)\Z")

MOST_BYTES = 1e18
_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7, "month": 30}


class Recipe(msgspec.Struct, frozen=True):
    """What a checkpoint holds for each trained parameter."""

    bytes_each: int
    what: str


RECIPES: dict[str, Recipe] = {
    "adam-mixed": Recipe(14, "2 bf16 weight, 4 fp32 master weight, 4 + 4 Adam's moments"),
    "adam-fp32": Recipe(12, "4 weight, 4 + 4 Adam's moments"),
    "adam-bf16": Recipe(6, "2 weight, 2 + 2 Adam's moments, all bf16"),
    "adam-8bit": Recipe(8, "2 bf16 weight, 4 fp32 master weight, 1 + 1 moments; block scales not counted"),
    "sgd": Recipe(4, "4 fp32 weight"),
    "sgd-momentum": Recipe(8, "4 fp32 weight, 4 momentum"),
    "lora": Recipe(14, "as adam-mixed, for the trained parameters alone: frozen ones are written once"),
}
"""By name. The counts of mixed precision are those of S. Rajbhandari et al., "ZeRO", SC 2020, section 3.1, without the
2 bytes of the gradient, which no checkpoint holds."""


def rounded(seconds: float) -> str:
    """A duration for reading, from ten minutes on in whole minutes, and without a second part that is nothing.

    >>> rounded(120), rounded(1197), rounded(3600), rounded(90000)
    ('2 min', '20 min', '1 h', '25 h')
    """
    if 600 <= seconds < 2 * 86400:
        seconds = round(seconds / 60) * 60
    return duration(seconds).removesuffix(" 0 min").removesuffix(" 0 s").removesuffix(" 0 h")


def parse_bytes(text: str) -> float:
    """A number of bytes: "98GB", "1.5TiB", "98e9" (the option says that it is bytes), or "14x7e9", bytes each times
    parameters.

    >>> parse_bytes("14x7e9"), parse_bytes("98GB"), parse_bytes("1KiB")
    (98000000000.0, 98000000000.0, 1024.0)
    """
    stripped = text.strip()
    if match := _PRODUCT.match(stripped):
        return _sized(float(match[1]) * float(match[2]), text)
    match = _SIZE.match(stripped)
    unit = {**_BYTES, **_BINARY}.get(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"{text!r} is not a number of bytes",
            remedy='write "98GB", "1.5TB", or bytes for each parameter times parameters: "14x7e9"',
        )
    return _sized(float(match[1]) * unit, text)


def parse_speed(text: str) -> float:
    """Bytes a second: "2GB/s".

    >>> parse_speed("2.5GB/s")
    2500000000.0
    """
    number, _, per = text.strip().rpartition("/")
    if per.strip() not in ("s", "sec") or not number.strip()[-1:].isalpha():
        raise UsageError(f"{text!r} is not a speed", remedy='write bytes a second with their unit, such as "2GB/s"')
    return parse_bytes(number)


def parse_failures(text: str) -> float:
    """Failures per 1,000 node-days: "6.5/1000nd", "0.0065/nd", "2 per 1000 node-hours".

    >>> parse_failures("6.5/1000nd"), parse_failures("0.0065/nd"), parse_failures("1/1000 node-hours")
    (6.5, 6.5, 24.0)
    """
    match = _FAILURES.match(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a failure rate",
            remedy='write failures per node-days, such as "6.5/1000nd" (6.5 failures in 1,000 days of one node); the rate '
            "of the whole job is --mtti 12h",
        )
    count = float(match[2]) if match[2] else 1.0
    node_days = count if match[3] in ("nd", "node-day", "node-days") else count / 24
    return _rate(1000 * float(match[1]) / node_days if node_days else 0.0, text)


def parse_per_day(text: str) -> float:
    """How often something happens to the job, per day: "1/day", "3/week", "0/day".

    >>> parse_per_day("1/day"), parse_per_day("14 per week")
    (1.0, 2.0)
    """
    match = _FREQUENCY.match(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a frequency", remedy='write how often in which time, such as "2/day" or "3/week"'
        )
    per_day = float(match[1]) / _DAYS[match[2]]
    if per_day > 86400:
        raise UsageError(f"{text!r}: more than once a second is no frequency of interruptions")
    return per_day


def parse_count(text: str, option: str) -> float:
    """A positive number without a unit, such as parameters: "7e9", "405e9", "7B" for 10^9, "350M".

    >>> parse_count("7e9", "--parameters"), parse_count("7B", "--parameters")
    (7000000000.0, 7000000000.0)
    """
    match = re.match(rf"({_NUMBER})\s*([KMBT]?)\Z", text.strip())
    if match is None or not 0 < float(match[1]) < 1e16:
        raise UsageError(
            f"{option} {text}: not a number of parameters", remedy='write "7e9", or "7B" for 7,000 million'
        )
    return float(match[1]) * {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[match[2]]


def _sized(count: float, text: str) -> float:
    if not 0 < count <= MOST_BYTES:
        raise UsageError(f"{text!r}: a state has more than no bytes, and less than 10^18")
    return count


def _rate(per_1000_node_days: float, text: str) -> float:
    if not 0 < per_1000_node_days <= 1e6:
        raise UsageError(
            f"{text!r}: a node fails between hardly ever and a thousand times a day",
            remedy="a job that is never interrupted needs no plan; check the number and its unit",
        )
    return per_1000_node_days
