"""One trace event as typed data.

Fields are declared in the order Kineto writes them, which msgspec rewards; keys that are not
declared are skipped without being built. `Raw` fields keep the JSON text: shapes repeat so often
that they are interned as text and parsed once.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from foretrace.schema.tables import NONE

EMPTY = Raw()
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
decode_exact_events = msgspec.json.Decoder(list[ExactEvent]).decode


def exact_number(text: str) -> Decimal | float:
    """A number with all its digits; infinite where even its exponent is too large."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return float(text)


decode_any_exact = msgspec.json.Decoder(float_hook=exact_number).decode
