"""Records of a trace as typed data: their kinds, their fields, and how they are decoded.

Fields are declared in the order in which Kineto writes them: msgspec finds them fastest so. Keys
that are not declared are skipped without being built. `Raw` fields keep the JSON text: shapes
repeat so often that they are interned as text and parsed once. A record of another shape is
coerced: a value of a wrong type is converted or left out, and noted.

Records become columns, chunk by chunk: plain arrays and interned text. A worker process builds one
`Columns` for its part of the file and sends it through a pipe. Every column is an `array`, so a
part is a few flat buffers however many events it holds.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

from foretrace.base.patterns import regex
from foretrace.base.units import INT64, whole
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import KIND, KINDS, NONE

# kind <- the categories that writers of every era use for it, matched without case
_WRITTEN = """
    cpu_op operator cpu_op
    user_annotation user user_annotation
    gpu_user_annotation gpu_user_annotation
    kernel kernel
    gpu_memcpy memcpy gpu_memcpy
    gpu_memset memset gpu_memset
    cuda_runtime runtime cuda_runtime xpu_runtime privateuse1_runtime mtia_runtime glow_runtime
    cuda_driver cuda_driver xpu_driver privateuse1_driver
    python_function python_function
    overhead overhead
    cuda_sync cuda_sync
    cuda_event cuda_event
    span trace
"""
_CATEGORIES = {"": "cpu_op"} | {
    category: kind
    for kind, *categories in map(str.split, _WRITTEN.strip().splitlines())
    for category in categories
}
_OTHERS = """
    ac2g fwdbwd cpu_instant_event external_correlation collective_comm mtia_ccp_events mtia_insight
    mtia_counters hardware_counters xpu_scope_profiler hpu_op cuda_profiler_range xpu_sync
    critical_path async async_gpu async_cpu_to_gpu cpu_to_cuda launch
"""
KNOWN_CATEGORIES = frozenset(_CATEGORIES) | frozenset(_OTHERS.split())
_PHASES = {"M": "metadata", "C": "counter", "B": "begin", "E": "end"}
_PHASES |= dict.fromkeys("iI", "instant") | dict.fromkeys("stf", "flow")
KNOWN_PHASES = frozenset(_PHASES) | {"X"}

# Where writers that state no category put device rows: JAX, torch_npu, the first autograd profiler
_ON_DEVICE = regex(r"/device:|ascend hardware|overlap analysis|cuda functions|[gn]pu\b", re.I)
_RUNS_KERNELS = regex(r"/device:gpu.*\nstream|gpu\b.*\nstream|cuda functions\n", re.I)

# table: columns, each with its type: integer `q`, float `d`, interned text `i`, list as interned
# text `l`, number that may be written as text `w`; `=` names another attribute of `Args`
_TABLES = """
    shapes    signature:i
    autograd  sequence:q forward_thread:q
    gpu       device:w stream:w grid:l block:l registers:q shared_memory:q blocks_per_sm:d
              warps_per_sm:d occupancy:d graph_id:q graph_node:q bytes:w
    comms     collective:i dtype:i in_elements:q out_elements:q group_size:q group_name:i
              seq:q comms_id:i source_rank:q target_rank:q
    syncs     sync_kind:i stream:w wait_stream:q wait_record:q
    frames    python_id:q python_parent:q python_module:q
    memory    device_type:q device_id:q address:q bytes:q=alloc_bytes total_allocated:q
              total_reserved:q
    triton    backend:i=kernel_backend kernel_hash:i kwargs:i=kernel_kwargs num_warps:i num_stages:i
    stacks    call_stack:i module_path:i
    launches  kernel:i grid:l
    labels    name:i labels:i
"""


def _parsed() -> dict[str, tuple[tuple[str, str, str], ...]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for word in _TABLES.split():
        if ":" not in word:
            columns = found[word] = []
            continue
        name, _, rest = word.partition(":")
        code, _, attribute = rest.partition("=")
        columns.append((name, code, attribute or name))
    return {table: tuple(columns) for table, columns in found.items()}


# side table -> (column, type, attribute of `Args`)
SIDES = _parsed()
# the side table that holds the arguments of a kind
KIND_SIDES = {
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), "gpu"),
    "cuda_sync": "syncs",
    "python_function": "frames",
    "memory": "memory",
    "metadata": "labels",
}


def kind_of(phase: str, category: str) -> int:
    """The kind of an event, as a number into `KINDS`."""
    if category == "memory":
        return KIND["memory"]
    if phase == "X":
        return KIND[_CATEGORIES.get(category.lower(), "other")]
    return KIND[_PHASES.get(phase, "unknown")]


def kind_without_category(processes: tuple[str, ...], thread: str) -> int:
    """What ranges without a category are, by what their process and thread are called."""
    if any(_RUNS_KERNELS.match(f"{process[:99]}\n{thread[:99]}") for process in processes):
        return KIND["kernel"]
    if any(map(_ON_DEVICE.match, processes)):
        return KIND["gpu_user_annotation"]  # derived rows: groups of kernels, waits, free time
    return KIND["other" if "CANN" in processes else "cpu_op"]


EMPTY = Raw()
EXACT_US = 1 << 43  # below this a float holds microseconds with three decimals
LAST_US = 4.6e15  # nanoseconds of later times, and sums of two of them, do not fit 64 bits
NAN = float("nan")  # a time that is not there
# what does not fit is read carefully, and noted
Int = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Number = int | float | None
Word = Int | str | None


class Args(Struct, gc=False, omit_defaults=True):
    """The arguments of every kind of event that foretrace reads.

    A number that is not written is already what its column holds for it: `NONE` or `NAN`.
    """

    # host events
    external_id: Int | None = field(name="External id", default=NONE)
    record_function_id: Int | None = field(name="Record function id", default=None)
    concrete: Raw = field(name="Concrete Inputs", default=EMPTY)
    types: Raw = field(name="Input type", default=EMPTY)
    strides: Raw = field(name="Input Strides", default=EMPTY)
    dims: Raw = field(name="Input Dims", default=EMPTY)
    index: Int | None = field(name="Ev Idx", default=None)
    sequence: Int | None = field(name="Sequence number", default=NONE)
    forward_thread: Int | None = field(name="Fwd thread id", default=NONE)
    cbid: Raw = EMPTY
    kernel: Raw = EMPTY  # of a launch, where ROCm wrote it
    # GPU events and the calls that launch them
    queued: Raw = EMPTY
    device: Word = NONE
    context: Raw = EMPTY
    stream: Word = NONE
    correlation: Int | None = NONE
    registers: Int | None = field(name="registers per thread", default=NONE)
    shared_memory: Int | None = field(name="shared memory", default=NONE)
    blocks_per_sm: Number = field(name="blocks per SM", default=NAN)
    warps_per_sm: Number = field(name="warps per SM", default=NAN)
    grid: Raw = EMPTY
    block: Raw = EMPTY
    occupancy: Number = field(name="est. achieved occupancy %", default=NAN)
    graph_id: Int | None = field(name="graph id", default=NONE)
    graph_node: Int | None = field(name="graph node id", default=NONE)
    bytes: Word = NONE
    # waiting
    sync_kind: str | None = field(name="cuda_sync_kind", default=None)
    wait_stream: Int | None = field(name="wait_on_stream", default=NONE)
    wait_record: Int | None = field(name="wait_on_cuda_event_record_corr_id", default=NONE)
    # Python frames
    python_id: Int | None = field(name="Python id", default=NONE)
    python_parent: Int | None = field(name="Python parent id", default=NONE)
    python_module: Int | None = field(name="Python module id", default=NONE)
    call_stack: Raw = field(name="Call stack", default=EMPTY)
    module_path: Raw = field(name="Module Hierarchy", default=EMPTY)
    finished: bool | None = None
    # allocator
    device_type: Int | None = field(name="Device Type", default=NONE)
    device_id: Int | None = field(name="Device Id", default=NONE)
    address: Int | None = field(name="Addr", default=NONE)
    alloc_bytes: Int | None = field(name="Bytes", default=NONE)
    total_allocated: Int | None = field(name="Total Allocated", default=NONE)
    total_reserved: Int | None = field(name="Total Reserved", default=NONE)
    # communication
    collective: str | None = field(name="Collective name", default=None)
    dtype: str | None = None
    in_elements: Int | None = field(name="In msg nelems", default=NONE)
    out_elements: Int | None = field(name="Out msg nelems", default=NONE)
    group_size: Int | None = field(name="Group size", default=NONE)
    group_name: str | None = field(name="Process Group Name", default=None)
    seq: Int | None = field(name="Seq", default=NONE)
    comms_id: Raw = field(name="Comms Id", default=EMPTY)
    source_rank: Int | None = field(name="Src Rank", default=NONE)
    target_rank: Int | None = field(name="Dst Rank", default=NONE)
    # compiled kernels
    kernel_backend: str | None = None
    kernel_hash: Raw = EMPTY
    kernel_kwargs: Raw = EMPTY
    num_warps: Raw = EMPTY
    num_stages: Raw = EMPTY
    # metadata events
    name: Raw = EMPTY
    labels: Raw = EMPTY
    # spellings of torch 1.8
    external_id_old: Int | None = field(name="external id", default=NONE)
    external_id_title: Int | None = field(name="External Id", default=NONE)
    dims_old: Raw = field(name="Input dims", default=EMPTY)


class Event(Struct, gc=False, forbid_unknown_fields=True):
    """One record of `traceEvents`; times are microseconds as written, whole or with decimals.

    A key that is not declared here sends its stretch to the careful reader: it may be damaged.
    """

    ph: str = ""
    cat: str = ""
    name: str | None = None
    pid: Word = None
    tid: Word = None
    ts: Number = NAN
    dur: Number = NAN
    id: Word = None
    args: Args | None = None
    bp: Raw = EMPTY
    s: Raw = EMPTY


class ExactEvent(Event, gc=False, forbid_unknown_fields=True):
    """The same with times as written: text, or absolute times that a float cannot hold."""

    ts: Raw = EMPTY  # type: ignore[assignment]
    dur: Raw = EMPTY  # type: ignore[assignment]


# JSON key -> attribute of Args, for the careful path.
ARG_FIELDS = dict(zip(Args.__struct_encode_fields__, Args.__struct_fields__, strict=True))
# Header of a record as every producer writes it: what may follow a string that was not escaped.
EVENT_KEYS = "ph cat name pid tid ts dur id args bp s tts cname sf stack"

decode_events = msgspec.json.Decoder(list[Event]).decode


@cache
def exact_decoder() -> Callable[[bytes], Sequence[Event]]:
    """Decodes records with times as written; few files need it."""
    return msgspec.json.Decoder(list[ExactEvent]).decode


def exact_number(text: str) -> Decimal | float:
    """A number with all its digits; infinite where even its exponent is too large."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return float(text)


decode_any_exact = msgspec.json.Decoder(float_hook=exact_number).decode


# how a field of `Args` is declared -> the plain types that it takes
_KINDS: dict[str, tuple[type, ...]] = {
    "Int | None": (int,),
    "Number": (int, float),
    "Word": (int, str),
    "str | None": (str,),
    "bool | None": (bool,),
}
# Python reads more than this: other digits, underscores, words for infinity
_TIME = regex(r"\s*(-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,4})?)\s*")
_TEXT_OR_NUMBER = frozenset({b'"', b"-", *(b"%d" % digit for digit in range(10))})
_TS = attrgetter("ts")
_LONG = regex(r"-?[0-9]{19,}")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def coerce(record: dict[str, Any], ledger: LedgerBuilder) -> Event:
    """Never fails: a record is kept even when nothing in it has the right type."""
    return Event(
        ph=_text(record.get("ph")) or "",
        cat=_text(record.get("cat")) or "",
        name=_text(record.get("name")),
        pid=_word(record.get("pid")),
        tid=_word(record.get("tid")),
        ts=_time(record.get("ts"), ledger),
        dur=_time(record.get("dur"), ledger),
        id=_word(record.get("id")),
        args=_args(record.get("args"), ledger),
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float | Decimal) else _encode(value).decode()


def _word(value: Any) -> int | str | None:
    if isinstance(value, bool) or value is None:
        return None if value is None else str(value)
    if isinstance(value, float | Decimal):
        value = int(value) if float(value).is_integer() else str(value)
    if isinstance(value, int):
        return value if value in INT64 else str(value)
    return _text(value)


def _time(value: Any, ledger: LedgerBuilder) -> Any:
    """A number, or a number written as text (torch_npu); anything else is no time at all."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _TIME.fullmatch(value)
        ledger.note("ts_type", 1 if found else 0)
        return exact_number(found[1]) if found else None
    return value if isinstance(value, int | float | Decimal) else None


def beyond_floats(events: Sequence[Event]) -> bool:
    """Whether some time is absolute and has decimals: a double near 1.7e15 has steps of 0.25."""
    try:
        if max(map(_TS, events), default=0) <= EXACT_US:  # quick, and false where one is no number
            return False
    except TypeError:
        pass
    return any([type(event.ts) is float and event.ts > EXACT_US for event in events])


def exact_times(events: Iterable[Event]) -> int:
    """Decode the times that were kept as written; the number of those that are text."""
    ledger = LedgerBuilder()
    for event in events:
        event.ts = _written(bytes(event.ts), exact_number, ledger)  # type: ignore[arg-type]
        event.dur = _written(bytes(event.dur), float, ledger)  # type: ignore[arg-type]
    return ledger.counts.get("ts_type", 0)


def _written(raw: bytes, number: Callable[[str], Any], ledger: LedgerBuilder) -> Any:
    if raw[:1] not in _TEXT_OR_NUMBER:
        return NAN
    found = _time(msgspec.json.decode(raw), ledger) if raw[:1] == b'"' else number(raw.decode())
    return NAN if found is None else found


def _args(found: Any, ledger: LedgerBuilder) -> Args | None:
    if not isinstance(found, dict) or not found:
        return None
    args = Args()
    for key, value in found.items():
        attribute = ARG_FIELDS.get(key)
        if attribute is not None and value is not None:
            number = float(value) if isinstance(value, Decimal) else value  # only times are exact
            setattr(args, attribute, _fit(number, Args.__annotations__[attribute], ledger))
    return args


def _fit(value: Any, declared: str, ledger: LedgerBuilder) -> Any:
    """`value` as the type a field declares, or its empty value with a note."""
    if declared == "Raw":
        return Raw(_encode(value))
    kinds = _KINDS[declared]
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        if isinstance(value, int) and not isinstance(value, bool) and value not in INT64:
            return str(value) if str in kinds else None
        return value
    number = whole(value) if isinstance(value, str) else None
    if number is None and isinstance(value, str) and _LONG.fullmatch(value):
        return None  # beyond 64 bits: noted as such where it was read
    ledger.note("arg_type")
    if isinstance(value, float) and value.is_integer() and int in kinds and int(value) in INT64:
        return int(value)
    if number is not None and int in kinds:
        return number
    if str in kinds and isinstance(value, int | float):
        return str(value)
    return None


# real records reach 6.9 kB; larger ones are checked against the limits
SUSPICIOUS = 32 << 10
_ESCAPES = regex(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')  # group 1: escapes nothing


def sound_events(listed: bytes, exact: bool) -> Sequence[Event] | None:
    """The records of a list; None when one needs a closer look."""
    if not listed.isascii():
        try:
            listed.decode()
        except UnicodeDecodeError:
            return None
    try:
        decode = exact_decoder() if exact else decode_events
        events: Sequence[Event] = decode(listed)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if badly_escaped(listed) or _odd_metadata(listed, events) else events


def more_lengths(listed: bytes, events: Sequence[Event], exact: bool) -> bool:
    """Whether `dur` is written more often than records have one: in one twice, or deeper."""
    absent = EMPTY if exact else NAN
    return listed.count(b'"dur"') > sum([event.dur is not absent for event in events])


def repeats_length(piece: bytes) -> bool:
    """Whether a sound record has `dur` twice: only one of them is read."""
    if piece.count(b'"dur"') < 2:
        return False
    pairs = json.loads(piece, object_pairs_hook=list)
    return [key for key, _ in pairs].count("dur") > 1


def badly_escaped(body: bytes) -> bool:
    """Whether a string that was skipped over is no valid JSON: a bad escape, or a NUL."""
    if b"\0" in body:
        return True
    return b"\\" in body and any(match[1] for match in _ESCAPES.finditer(body))


def _odd_metadata(body: bytes, events: Sequence[Event]) -> bool:
    """Some writers append communication metadata to kernels that have it: keys are there twice."""
    stated = [a for event in events if (a := event.args) is not None and a.dtype is not None]
    if not stated:
        return False
    written = body.count(b'"dtype"')
    ids = [bytes(args.comms_id) for args in stated]
    return written != len(stated) or any(len(text) > 18 and _beyond_64_bits(text) for text in ids)


def _beyond_64_bits(text: bytes) -> bool:
    digits = text.lstrip(b"-")
    return digits.isdigit() and (len(digits) > 20 or not -(1 << 63) <= int(text) < 1 << 64)


# large enough that per-chunk cost vanishes, small enough that its objects stay in cache
CHUNK = 256 << 10


class After(Enum):
    """What the next record comes after."""

    START, RECORD, DAMAGE = range(3)


class Buffer:
    """`data` starts at byte `offset` of the document; `ended`: no more bytes will come."""

    def __init__(self, blocks: Iterator[bytes], offset: int = 0) -> None:
        self.blocks, self.offset, self.data, self.ended = blocks, offset, b"", False

    def fill(self, size: int) -> None:
        """Hold at least `size` bytes, or all there are."""
        if len(self.data) >= size or self.ended:
            return
        pieces, held = [self.data], len(self.data)
        while held < size:
            block = next(self.blocks, None)
            if block is None:
                self.ended = True
                break
            pieces.append(block)
            held += len(block)
        self.data = b"".join(pieces)

    def drop(self, count: int) -> None:
        """Forget the first `count` bytes."""
        self.data = self.data[count:]
        self.offset += count


FIRST_FIELD = rb'\{\s*+"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*+:'
# possessive: a megabyte of blanks is read once
BOUNDARY = regex(rb"\}\s*+(?:,\s*+)?(?=" + FIRST_FIELD + rb")")
FIRST_KEY = regex(FIRST_FIELD)
# group 1 is empty when the string has no end
TOKEN = regex(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)


def last_boundary(data: bytes, start: int, stop: int) -> int:
    """The end of the last record in `data[start:stop]` that another one follows, or `start`."""
    window = 4 << 10  # a dozen records, usually
    while True:
        begin = max(stop - window, start)
        last = None
        for match in BOUNDARY.finditer(data, begin, stop):
            last = match
        if last is not None:
            return last.start() + 1
        if begin == start:
            return start
        window *= 8


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
