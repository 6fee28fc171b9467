"""Events as columns: plain arrays and interned text, built chunk by chunk.

A worker process builds one `Columns` for its part of the file and sends it through a pipe. Every
column is an `array`, so a part is a few flat buffers however many events it holds.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from decimal import Decimal
from itertools import compress
from operator import attrgetter
from typing import Any

from foretrace.base.patterns import regex
from foretrace.base.units import INT64, whole
from foretrace.read.kineto.records import (
    EMPTY,
    EXACT_US,
    KIND_SIDES,
    LAST_US,
    NAN,
    SIDES,
    Args,
    Event,
    kind_of,
)
from foretrace.read.tables import KINDS, NONE

_TYPECODES = {"w": "q", "l": "i"}
_HEX = regex(r"0[xX][0-9a-fA-F]{1,15}")
# calls that state what they launch: ROCm's; CUDA's have no such argument, and need no look
NAMING = frozenset(
    f"hip{call}Kernel"
    for call in ("Launch", "ModuleLaunch", "ExtModuleLaunch", "ExtLaunch", "LaunchCooperative")
)
NO_ARGS = Args()


class Pool(dict[Any, int]):
    """Values to small integers, in order of first sight."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class Pools:
    """What the numbers in columns stand for; the stretches that one process reads share them."""

    def __init__(self) -> None:
        self.sites, self.names, self.texts = Pool(), Pool(), Pool()


class Columns:
    """All events of one stretch of a file.

    `site` is (phase, category, pid, tid), from which kind and track follow. A flow arrow's id is
    its `correlation`. Where a float cannot hold a time, `exact_event` has the event's number and
    `exact_ns` its nanoseconds.
    """

    def __init__(self, pools: Pools | None = None) -> None:
        self.pools = pools or Pools()
        self.sites, self.names, self.texts = self.pools.sites, self.pools.names, self.pools.texts
        self.site, self.name = array("i"), array("i")
        self.ts, self.dur = array("d"), array("d")
        self.exact_event, self.exact_ns = array("q"), array("q")
        self.correlation, self.external = array("q"), array("q")
        self.unfinished = self.coerced = 0
        self.sides: dict[str, dict[str, array[Any]]] = {
            side: {"event": array("q")}
            | {name: array(_TYPECODES.get(code, code)) for name, code, _ in columns}
            for side, columns in SIDES.items()
        }

    def __len__(self) -> int:
        return len(self.site)

    def add(self, events: Sequence[Event], *, exact: bool = True) -> None:
        """Append events in file order. Written for speed: it runs for each of millions of events.

        `exact`: some times may be decimals that a float cannot hold.
        """
        if not events:
            return
        base = len(self.site)
        names = list(map(self.names.__getitem__, [event.name for event in events]))
        written = [(event.ph, event.cat, event.pid, event.tid) for event in events]
        sites = list(map(self.sites.__getitem__, written))
        if "[memory]" in self.names:
            sites = self._memory_as_instants(sites, names)
        self.site.extend(array("i", sites))
        self.name.extend(array("i", names))
        ts = [event.ts for event in events]
        if exact:
            self._exact_times(base, ts)
        _extend_times(self.ts, ts)
        _extend_times(self.dur, [event.dur for event in events])
        args = [NO_ARGS if (a := event.args) is None else a for event in events]
        self.correlation.extend(_integers([a.correlation for a in args]))
        self.external.extend(
            _integers([_external(a) if (e := a.external_id) is NONE else e for a in args])
        )
        self._sides(base, sites, args, events)

    def _exact_times(self, base: int, values: Sequence[Any]) -> None:
        """Keep all digits of the times that a float cannot hold."""
        if Decimal not in set(map(type, values)):
            return
        for at, value in enumerate(values, base):
            if type(value) is Decimal and EXACT_US <= abs(float(value)) < LAST_US and value % 1:
                self.exact_event.append(at)
                self.exact_ns.append(round(value * 1000))

    def _memory_as_instants(self, sites: list[int], names: list[int]) -> list[int]:
        """`[memory]` is an instant, even where a writer gave it a false duration."""
        memory, written = self.names["[memory]"], list(self.sites)
        return [
            self.sites[("i", "memory", *written[site][2:])] if name == memory else site
            for site, name in zip(sites, names, strict=True)
        ]

    def _sides(
        self, base: int, sites: list[int], args: list[Args], events: Sequence[Event]
    ) -> None:
        """Hand the members of each kind to the side tables that hold its arguments."""
        written = list(self.sites)
        places: dict[int, list[int]] = {site: [] for site in set(sites)}
        for at, site in enumerate(sites):
            places[site].append(at)
        groups: dict[str, list[int]] = {}
        for site, members in places.items():
            groups.setdefault(KINDS[kind_of(*written[site][:2])], []).extend(members)
        for kind, found in groups.items():
            if kind == "flow":
                for at in found:
                    flow = events[at].id
                    self.correlation[base + at] = flow if isinstance(flow, int) else NONE
            elif kind in ("cpu_op", "user_annotation"):
                self._host(*_held(base, found, args))
            elif kind == "cuda_runtime" and any(call in self.names for call in NAMING):
                ids, held = _held(base, found, args)
                self._chosen("launches", ids, held, [a.kernel is not EMPTY for a in held])
            elif kind in KIND_SIDES:
                ids, held = _held(base, found, args)
                self._side(KIND_SIDES[kind], ids, held)
                stated = [a.collective is not None or a.dtype is not None for a in held]
                self._chosen("comms", ids, held, stated)

    def _host(self, ids: list[int], held: list[Args]) -> None:
        for a in [a for a in held if a.dims_old is not EMPTY]:
            a.dims = a.dims_old if a.dims is EMPTY else a.dims
        shaped_ids, shaped = _kept(ids, held, [a.dims is not EMPTY for a in held])
        forms = [self.texts[b"\0".join((a.dims, a.types, a.strides, a.concrete))] for a in shaped]
        self.sides["shapes"]["event"].extend(array("q", shaped_ids))
        self.sides["shapes"]["signature"].extend(array("i", forms))
        self._chosen("autograd", ids, held, [a.sequence is not NONE for a in held])
        rare = [
            a.kernel_backend is not None
            or a.collective is not None
            or a.call_stack is not EMPTY
            or a.module_path is not EMPTY
            or a.finished is not None
            for a in held
        ]
        if any(rare):
            self._rare(*_kept(ids, held, rare))

    def _rare(self, ids: list[int], held: list[Args]) -> None:
        self._chosen("triton", ids, held, [a.kernel_backend is not None for a in held])
        self._chosen("comms", ids, held, [a.collective is not None for a in held])
        placed = [a.call_stack is not EMPTY or a.module_path is not EMPTY for a in held]
        self._chosen("stacks", ids, held, placed)
        self.unfinished += sum([a.finished is False for a in held])

    def _chosen(self, side: str, ids: list[int], held: list[Args], wanted: list[bool]) -> None:
        if any(wanted):
            self._side(side, *_kept(ids, held, wanted))

    def _side(self, side: str, ids: list[int], held: list[Args]) -> None:
        columns = self.sides[side]
        columns["event"].extend(array("q", ids))
        for name, code, attribute in SIDES[side]:
            columns[name].extend(self._encoded(code, list(map(attrgetter(attribute), held))))

    def _encoded(self, code: str, values: list[Any]) -> array[Any]:
        if code in "il":
            return array("i", list(map(self._text, values)))
        if code == "d":
            return array("d", [NAN if value is None else value for value in values])
        if code == "q":
            return _integers(values)
        try:
            return array("q", values)
        except TypeError:
            self.coerced += sum([type(value) is str for value in values])
            return array("q", list(map(_whole, values)))

    def _text(self, value: Any) -> int:
        if value is None or value is EMPTY:
            return -1
        return self.texts[value if isinstance(value, str) else bytes(value)]


def _held(base: int, members: list[int], args: list[Args]) -> tuple[list[int], list[Args]]:
    """The members that have arguments: their event numbers, and the arguments."""
    held = [a for at in members if (a := args[at]) is not NO_ARGS]
    if len(held) == len(members):
        return [base + at for at in members], held
    return [base + at for at in members if args[at] is not NO_ARGS], held


def _kept(ids: list[int], held: list[Args], wanted: list[bool]) -> tuple[list[int], list[Args]]:
    return list(compress(ids, wanted)), list(compress(held, wanted))


def _integers(values: list[Any]) -> array[int]:
    """`values` as a column; a number that is written as null is `NONE`, too."""
    try:
        return array("q", values)
    except TypeError:
        return array("q", [NONE if value is None else value for value in values])


def _external(args: Args) -> int:
    """The id under the keys that torch 1.8 gave it."""
    if args is NO_ARGS:
        return NONE
    old, title = args.external_id_old, args.external_id_title
    found = title if old is None or old == NONE else old
    return NONE if found is None else found


def _extend_times(column: array[float], values: Sequence[Any]) -> None:
    try:
        column.extend(array("d", values))
    except (TypeError, OverflowError):
        column.extend([_float(value) for value in values])


def _float(value: Any) -> float:
    """A time as written; an integer too large for a float is no time."""
    try:
        return NAN if value is None else float(value)
    except OverflowError:
        return float("inf")


def _whole(value: int | str | None) -> int:
    """A stream or device written as a number or as text (`"7"`, `"stream 7"`, a hex handle)."""
    if isinstance(value, int):
        return value if value in INT64 else NONE
    if value is None:
        return NONE
    digits = value.rsplit(" ", 1)[-1]
    number = int(digits, 16) if _HEX.fullmatch(digits) else whole(digits)
    return NONE if number is None else number
