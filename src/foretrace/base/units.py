"""Quantities as integers, and the only place that turns them into text.

Times are integer nanoseconds, sizes are bytes, work is floating-point operations. A value that is
not known is None and is shown as a dash, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foretrace.base.patterns import regex

DASH = "–"

_TIME = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_BYTES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_FLOPS = ((10**15, "PFLOP"), *((factor, f"{unit[0]}FLOP") for factor, unit in _BYTES))


def time_text(ns: float | None) -> str:
    """`1234567` -> `1.23 ms`. Three significant digits; whole nanoseconds below one microsecond."""
    return _scaled(ns, _TIME, "ns")


def span_text(seconds: float) -> str:
    """`8100` -> `2.2 hours`: for spans that a person waits; below two minutes as `time_text`."""
    for factor, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * factor:
            count = seconds / factor
            return f"{count_text(round(count, 1) if count < 100 else round(count))} {unit}"
    return time_text(seconds * 1e9)


def bytes_text(count: float | None) -> str:
    """`50331648` -> `50.3 MB`: decimal units; one decimal above 100 too, since bytes are summed."""
    return _scaled(count, _BYTES, "B", large=".1f")


def flops_text(count: float | None) -> str:
    """`38654705664` -> `38.7 GFLOP`."""
    return _scaled(count, _FLOPS, "FLOP")


def percent_text(part: float | None) -> str:
    """`0.123` -> `12.3%`; what is not nothing is not 0.0%."""
    if part is None:
        return DASH
    return "<0.1%" if 0 < part < 0.0005 else f"{part * 100:.1f}%"


def ratio_text(ratio: float | None) -> str:
    """`0.8812` -> `0.88x`."""
    return DASH if ratio is None else f"{ratio:.2f}x"


def count_text(count: float | None) -> str:
    """`52856` -> `52,856`; a fraction keeps one digit."""
    if count is None:
        return DASH
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def plural(count: float, one: str, many: str = "") -> str:
    """`3, "kernel"` -> `3 kernels`; `many` where adding an s is wrong."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def times_text(count: float) -> str:
    """`1` -> `once`, `3` -> `3 times`."""
    return "once" if count == 1 else plural(count, "time")


def listing(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def change_text(
    before: float | None, after: float | None, text: Callable[[float | None], str] = time_text
) -> str:
    """`69_792, 37_440` -> `69.8 to 37.4 us`; both units where they differ."""
    (old, _, unit), new = text(before).partition(" "), text(after)
    return f"{old if new.endswith(f' {unit}') else text(before)} to {new}"


def range_text(
    low: float | None, high: float | None, text: Callable[[float | None], str] = time_text
) -> str:
    """`37.4 to 69.8 us`, or one of them where both read the same."""
    return text(low) if text(low) == text(high) else change_text(low, high, text)


def sum_of_all(values: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is not known."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _scaled(
    value: float | None, steps: tuple[tuple[int, str], ...], base: str, large: str = ".0f"
) -> str:
    if value is None:
        return DASH
    for factor, unit in steps:
        if abs(value) >= factor:
            shown = value / factor
            size = abs(shown)
            digits = large if size >= 100 else ".1f" if size >= 10 else ".2f"
            return f"{shown:,{digits}} {unit}"
    return f"{value:.0f} {base}"


INT64 = range(-(1 << 63), 1 << 63)
# Python also reads the digits of other scripts, underscores and blanks, and refuses 4,301 digits
_WHOLE = regex(r"-?[0-9]{1,19}")


def whole(text: str) -> int | None:
    """A number of at most 64 bits in plain digits; None for any other text."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if number in INT64 else None
