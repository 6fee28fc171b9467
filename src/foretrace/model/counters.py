"""Which launch of an export of Nsight Compute is which kernel of a trace, and what it moved.

Both list launches in their order. The kernels of the counted step, or of a step that fits, are
compared with the launches by function, grid, block and template arguments, of which two demanglers
share the words and numbers alone. A launch that fits none of the kernels with its function, grid
and block, or two, gets a number of its own and is joined to none. A pair counts where every longest
common subsequence has it: `a a b` and `a b` leave open which `a` is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from foretrace.base.patterns import regex
from foretrace.base.units import count_text, plural
from foretrace.model.analysis import Analysis
from foretrace.names import devices
from foretrace.read.ncu import CounterLaunch
from foretrace.schema.device import Device
from foretrace.schema.documents.counters import KnownRoof
from foretrace.schema.traffic import SECTOR, WAVEFRONT

_TENSOR = regex(
    r"sm__ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?src_(?P<type>[a-z]+\d+)(?:_dst_\w+?)?\.sum"
)
_TIMES = ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum")


class LevelTraffic(Struct, frozen=True):
    """Bytes of one launch by level; None for what was not counted.

    `l2` is what the multiprocessors sent to L2 and got from it. `l2_lookups` is all that L2 looked
    up, what passes between its partitions included; `l2_fabric` is that part alone.
    """

    hbm_read: float | None = None
    hbm_written: float | None = None
    l2: float | None = None
    l2_read: float | None = None
    l2_written: float | None = None
    l2_lookups: float | None = None
    l2_fabric: float | None = None
    l1: float | None = None
    shared: float | None = None

    @property
    def hbm(self) -> float | None:
        """Read and written; None where one of them was not counted."""
        if self.hbm_read is None or self.hbm_written is None:
            return None
        return self.hbm_read + self.hbm_written

    @property
    def kept_in_l2(self) -> float | None:
        """What multiprocessors read and HBM did not: it was in L2, or was read twice."""
        if self.l2_read is None or self.hbm_read is None:
            return None
        return max(self.l2_read - self.hbm_read, 0.0)

    @property
    def kept_in_l1(self) -> float | None:
        """What threads moved through L1 and L2 did not see."""
        return None if self.l1 is None or self.l2 is None else max(self.l1 - self.l2, 0.0)


_FROM_L1 = "lts__t_sectors_srcunit_tex"
# The metrics of each level, and the bytes that one of them stands for; the first that was counted.
_LEVELS: dict[str, dict[str, int]] = {
    "hbm_read": {"dram__bytes_read.sum": 1, "dram__sectors_read.sum": SECTOR},
    "hbm_written": {"dram__bytes_write.sum": 1, "dram__sectors_write.sum": SECTOR},
    "l2": {f"{_FROM_L1}.sum": SECTOR},
    "l2_read": {f"{_FROM_L1}_op_read.sum": SECTOR},
    "l2_written": {f"{_FROM_L1}_op_write.sum": SECTOR},
    "l2_lookups": {"lts__t_bytes.sum": 1, "lts__t_sectors.sum": SECTOR},
    "l2_fabric": {"lts__t_sectors_srcunit_ltcfabric.sum": SECTOR},
    "l1": {"l1tex__t_bytes.sum": 1, "l1tex__t_sectors.sum": SECTOR},
    "shared": {
        "sm__sass_data_bytes_mem_shared.sum": 1,
        "smsp__sass_data_bytes_mem_shared.sum": 1,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": WAVEFRONT,
    },
}


def traffic(metrics: Mapping[str, float]) -> LevelTraffic:
    """The traffic of one launch."""
    return LevelTraffic(**{level: _first(metrics, names) for level, names in _LEVELS.items()})


def counted_ns(metrics: Mapping[str, float]) -> float | None:
    """How long the launch took under Nsight Compute."""
    return _first(metrics, dict.fromkeys(_TIMES, 1))


def tensor_operations(metrics: Mapping[str, float]) -> dict[str, float]:
    """Operations of the tensor cores by the type of their operands, those above zero.

    A metric of a type counts those of each instruction; where there is none, these are added. Of
    one instruction the largest counts: others are parts of it.
    """
    parts: dict[str, dict[str | None, float]] = {}  # by type and instruction; None for all of them
    for name, value in metrics.items():
        if found := _TENSOR.fullmatch(name):
            each = parts.setdefault(found["type"], {})
            each[found["op"]] = max(value, each.get(found["op"], 0.0))
    counted = {kind: each.get(None, sum(each.values())) for kind, each in sorted(parts.items())}
    return {kind: value for kind, value in counted.items() if value > 0}


def mean_traffic(launches: Sequence[LevelTraffic]) -> LevelTraffic:
    """The mean of each level over the launches that counted it."""
    columns = zip(*(asdict(launch).values() for launch in launches), strict=True)
    return LevelTraffic(*(mean(values) for values in columns))


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _first(metrics: Mapping[str, float], names: Mapping[str, int]) -> float | None:
    return next((metrics[name] * scale for name, scale in names.items() if name in metrics), None)


def ceilings(device: Device | None) -> list[KnownRoof]:
    """HBM, L2, shared memory, and tensor cores by type; what nobody stated is not in it."""
    if device is None:
        return []
    found = devices.measured_roofs(device)
    cache = device.cache_bytes or device.l2_bytes or 0
    sheet = "datasheet"
    rates: dict[str, tuple[float | None, str]] = {"hbm": (device.bytes_per_s, sheet)}
    rates |= {f"tensor {kind}": (rate, sheet) for kind, rate in device.peak_flops.items()}
    if found is not None:
        when = found.environment.get("measured", "")
        said = f"{found.command}, {when[:10]}" if when else found.command
        flops = {
            kind: max(found.tflops.get(kind, 0.0), found.units_tflops.get(kind, 0.0))
            for kind in (*found.tflops, *found.units_tflops)
        }
        measured = {
            "hbm": (found.memory_gbps(cache) or 0) * 1e9,
            "l2": (found.cache_gbps(cache) or 0) * 1e9,
            "shared": max(found.shared_gbps.values(), default=0) * 1e9,
            **{f"tensor {kind}": rate * 1e12 for kind, rate in flops.items()},
        }
        rates |= {level: (rate, said) for level, rate in measured.items() if rate}
    return [KnownRoof(level, rate, source) for level, (rate, source) in rates.items() if rate]


_NAMELESS = regex(r"\(anonymous namespace\)::|<unnamed>::|\(unnamed namespace\)::")
_WORD = regex(r"\b[A-Za-z_]\w*")
_NUMBER, _TRUE, _FALSE = (re.compile(text) for text in (r"\b\d+", r"\btrue\b", r"\bfalse\b"))
# Words of one demangler alone.
_OWN = "instance unnamed anonymous namespace lambda const int bool unsigned long"
_PARAMETER = regex(r"T\d+")


@lru_cache(maxsize=8192)
def function(name: str) -> str:
    """`void at::native::foo<4, float>(int)` -> `foo`."""
    plain = _NAMELESS.sub("", name)
    head = re.split(r"[<(]", plain, maxsplit=1)[0].strip()
    return re.split(r"::|\s", head)[-1] or plain


@lru_cache(maxsize=8192)
def argument_words(name: str) -> frozenset[str]:
    """The words of a name's template arguments, and its numbers as one more; none without any.

    `4, true, 128u` and `(int)4, (bool)1, (unsigned int)128` have the same numbers.
    """
    inside = _template(_NAMELESS.sub("", name))
    words = {
        word
        for word in _WORD.findall(inside)
        if word not in _OWN.split() and not _PARAMETER.fullmatch(word)
    }
    numbers = ",".join(_NUMBER.findall(_TRUE.sub("1", _FALSE.sub("0", inside))))
    return frozenset(words | {numbers} if numbers else words)


def _template(name: str) -> str:
    """What stands between the angle brackets of the function."""
    start = name.find("<")
    if start < 0 or "(" in name[:start]:
        return ""
    depth = 0
    for at in range(start, len(name)):
        depth += (name[at] == "<") - (name[at] == ">" and name[at - 1] != "-")
        if depth == 0:
            return name[start + 1 : at]
    return name[start + 1 :]


def likeness(left: str, right: str) -> float:
    """The share of words that the arguments of two names have in common, 0 to 1."""
    ours, theirs = argument_words(left), argument_words(right)
    both = ours | theirs
    return len(ours & theirs) / len(both) if both else 1.0


# Two demanglers write the arguments of one kernel with these words in common, and more.
SAME = 0.6


class LaunchShape(NamedTuple):
    """A launch as both lists have it; () where a grid or a block is not known."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]


def numbered_launches(
    ours: Sequence[LaunchShape], theirs: Sequence[LaunchShape]
) -> tuple[list[int], list[int]]:
    """A number for each launch of a trace and of an export; equal numbers may be one kernel."""
    sized = all(launch.grid and launch.block for launch in (*ours, *theirs))
    variants: dict[tuple[object, ...], list[str]] = {}
    for launch in ours:
        known = variants.setdefault(_class(launch, sized), [])
        if launch.name not in known:
            known.append(launch.name)
    bare = {function(launch.name) for launch in theirs if not argument_words(launch.name)}
    numbers: dict[tuple[object, ...], int] = {}

    def number(launch: LaunchShape, variant: object) -> int:
        return numbers.setdefault((*_class(launch, sized), variant), len(numbers))

    left = [
        number(launch, None if function(launch.name) in bare else launch.name) for launch in ours
    ]
    right = [
        number(launch, _variant(launch, variants.get(_class(launch, sized), []), bare))
        for launch in theirs
    ]
    return left, right


def _class(launch: LaunchShape, sized: bool) -> tuple[object, ...]:
    shape = (launch.grid, launch.block) if sized else ()
    return (function(launch.name), *shape)


def _variant(launch: LaunchShape, known: Sequence[str], bare: set[str]) -> object:
    """The kernel of the trace that a launch of the export is; itself where that is not certain."""
    if function(launch.name) in bare:
        return None
    scores = sorted(((likeness(name, launch.name), name) for name in known), reverse=True)
    if not scores or scores[0][0] < SAME:
        return ("other", launch.name)
    if len(scores) > 1 and scores[1][0] == scores[0][0]:
        return ("either", launch.name)
    return scores[0][1]


LARGEST = 16_000_000  # cells: 4,000 launches on either side, 64 MB

Table = NDArray[np.int16]


def certain_pairs(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]] | None:
    """Pairs of places that every longest alignment has; None for lists that are too long."""
    if list(left) == list(right):
        return [(at, at) for at in range(len(left))]
    if len(left) * len(right) > LARGEST or max(len(left), len(right)) > 30_000:
        return None
    ours, theirs = np.asarray(left, np.int64), np.asarray(right, np.int64)
    before = _lengths(ours, theirs)
    after = _lengths(ours[::-1], theirs[::-1])[::-1, ::-1]
    longest = int(before[-1, -1])
    equal = ours[:, None] == theirs[None, :]
    possible = equal & (before[:-1, :-1] + 1 + after[1:, 1:] == longest)
    rows, columns = np.nonzero(possible)
    # every longest alignment has one pair of each rank: a rank with one candidate is certain
    rank = before[rows, columns]
    alone = np.bincount(rank, minlength=max(longest, 1))[rank] == 1
    return [(int(i), int(j)) for i, j in zip(rows[alone], columns[alone], strict=True)]


def _lengths(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> Table:
    """Row i, column j: the length of the longest common subsequence of the first i and j."""
    found = np.zeros((len(ours) + 1, len(theirs) + 1), np.int16)
    for at, value in enumerate(ours):
        above = found[at]
        reached = np.maximum(above[1:], above[:-1] + (theirs == value))
        found[at + 1, 1:] = np.maximum.accumulate(reached)
    return found


def occurrences(part: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Where `part` stands in `whole` without a gap."""
    if not part or len(part) > len(whole):
        return []
    pattern, text = np.asarray(part), np.asarray(whole)
    starts = np.flatnonzero(text[: len(text) - len(pattern) + 1] == pattern[0])
    for offset in range(1, len(pattern)):
        starts = starts[text[starts + offset] == pattern[offset]]
    return [int(start) for start in starts]


# Below this share of joined launches a kernel that one run lacks and one that the other repeats may
# pass for one: with 10% missing and 5% repeated, 0.5% of the joined were wrong; with 2%, none.
MOSTLY = 0.95
MOST_STEPS = 20  # that are compared with an export of an unknown step
LAST = -1


class Wanted(NamedTuple):
    """What was counted, where that is known: a step of the trace, kernels by name, the first few.

    `step` is LAST, the last step of the trace; None where any of them may fit.
    """

    step: int | None = None
    kernel: str | None = None
    limit: int | None = None


class CounterJoin(Struct, frozen=True):
    """Pairs of (launch of the export, kernel of the trace), and how they were found.

    `compared` is how many kernels of the trace were compared, `place` what they are.
    """

    pairs: list[tuple[int, int]]
    compared: int
    place: str
    note: str = ""


class _Window(NamedTuple):
    """Kernels of the trace that an export may show: their ids in launch order."""

    place: str
    ids: list[int]
    shapes: list[LaunchShape]
    steps: list[int | None]


def joined(trace: Analysis, launches: Sequence[CounterLaunch], wanted: Wanted) -> CounterJoin:
    """Join the launches of one process to kernels of a trace."""
    theirs = [LaunchShape(one.name, one.grid, one.block) for one in launches]
    # the last step is counted unless the export fits another
    last = _window(trace, int(trace.steps["index"][-1]) if trace.steps.height else None, wanted)
    places = [] if wanted.step is not None else _other_steps(trace, len(theirs), wanted)
    for step in [None, *places]:
        window = last if step is None else _window(trace, step, wanted)
        ours, counted = numbered_launches(window.shapes, theirs)
        if ours and ours == counted:
            return _found(window, [(at, at) for at in range(len(ours))])
    whole = _window(trace, None, wanted)
    if wanted.step is None and (inside := _inside(trace, whole, theirs)):
        return inside
    ours, counted = numbered_launches(last.shapes, theirs)
    pairs = certain_pairs(ours, counted)
    if pairs is None:
        text = "both lists differ and are too long to be compared: count fewer launches"
        return CounterJoin([], len(last.ids), last.place, text)
    return _found(last, pairs, _differences(last, pairs, launches))


def launches_of(
    trace: Analysis, launches: Sequence[CounterLaunch]
) -> tuple[list[CounterLaunch], list[str]]:
    """The launches of one process and device: those with most functions of the trace."""
    parts: dict[tuple[str, str], list[CounterLaunch]] = {}
    for launch in launches:
        parts.setdefault((launch.process, launch.device), []).append(launch)
    known = {function(name) for name in trace.kernels["name"].unique()}
    ordered = sorted(
        parts.values(), key=lambda part: -sum(function(one.name) in known for one in part)
    )
    others = sum(map(len, ordered[1:]))
    text = f"{plural(others, 'launch', 'launches')} of other processes or GPUs not used"
    return ordered[0], [text] if others else []


def _other_steps(trace: Analysis, count: int, wanted: Wanted) -> list[int]:
    """Earlier steps that an export may show, the last one first: those with as many kernels."""
    sizes = dict(trace.kernels.group_by("step").len().iter_rows())
    chosen = wanted.kernel is not None or wanted.limit is not None
    steps = [step for step in trace.steps["index"] if chosen or sizes.get(step) == count]
    return steps[::-1][:MOST_STEPS]


def _window(trace: Analysis, step: int | None, wanted: Wanted) -> _Window:
    frame = trace.kernels if step is None else trace.kernels.filter(pl.col("step") == step)
    # within a launch of a graph, kernels have the order in which they ran
    frame = frame.sort("launch", "ts_ns", nulls_last=True, maintain_order=True)
    if wanted.kernel is not None:
        meant = re.compile(wanted.kernel)
        frame = frame.filter([bool(meant.search(function(name))) for name in frame["name"]])
    if wanted.limit is not None:
        frame = frame.head(wanted.limit)
    shapes = [
        LaunchShape(name, tuple(grid or ()), tuple(block or ()))
        for name, grid, block in frame.select("name", "grid", "block").iter_rows()
    ]
    place = "the trace" if step is None else _step_name(trace, step)
    return _Window(place, frame["id"].to_list(), shapes, frame["step"].to_list())


def _step_name(trace: Analysis, step: int) -> str:
    return str(trace.steps.filter(pl.col("index") == step)["name"][0])


def _inside(trace: Analysis, whole: _Window, theirs: list[LaunchShape]) -> CounterJoin | None:
    """An export that is a part of the trace without a gap: at one place, or at one of each step."""
    ours, counted = numbered_launches(whole.shapes, theirs)
    starts = occurrences(counted, ours)
    if not starts:
        return None
    if len(starts) > 1 and not _once_a_step(whole, starts):
        text = f"the launches fit {len(starts)} places of the trace, so they are joined to none"
        return CounterJoin([], len(whole.ids), whole.place, text)
    pairs = [(starts[-1] + at, at) for at in range(len(counted))]
    found = _found(whole, pairs)
    step = whole.steps[starts[-1]]
    if len(starts) == 1 or step is None:
        return found
    return replace(found, place=_step_name(trace, step), compared=whole.steps.count(step))


def _once_a_step(whole: _Window, starts: list[int]) -> bool:
    """Whether each place is as far behind the begin of its step as the others."""
    first: dict[int | None, int] = {}
    for at, step in enumerate(whole.steps):
        first.setdefault(step, at)
    within = [whole.steps[start] for start in starts]
    apart = {start - first[step] for start, step in zip(starts, within, strict=True)}
    return None not in within and len(set(within)) == len(starts) and len(apart) == 1


def _found(window: _Window, pairs: list[tuple[int, int]], note: str = "") -> CounterJoin:
    return CounterJoin(
        [(theirs, window.ids[ours]) for ours, theirs in pairs],
        len(window.ids),
        window.place,
        note,
    )


def _differences(
    window: _Window, pairs: list[tuple[int, int]], launches: Sequence[CounterLaunch]
) -> str:
    """What the two runs do not share, in words."""
    known = {function(shape.name) for shape in window.shapes}
    joined_ones = {theirs for _, theirs in pairs}
    rest = [function(one.name) for at, one in enumerate(launches) if at not in joined_ones]
    alone = Counter(name for name in rest if name not in known)
    unsure, missing = len(rest) - alone.total(), len(window.ids) - len(pairs)
    parts = []
    if alone:
        names = ", ".join(f"{name} ({count_text(count)})" for name, count in alone.most_common(3))
        parts.append(f"{plural(alone.total(), 'launch', 'launches')} not in the trace: {names}")
    if unsure:
        parts.append(
            f"{plural(unsure, 'launch', 'launches')} could be several kernels of it, or none"
        )
    if missing:
        parts.append(f"{plural(missing, 'kernel')} of the trace not joined")
    if pairs and len(pairs) < MOSTLY * max(len(launches), len(window.ids)):
        parts.append("the runs differ much, so a launch may be another one of the same kernel")
    return "; ".join(parts)
