"""`Cost`, `CostKind`, and what the names of kernels say about bytes, whichever op launched them.

The names of CUB's sorts and scans state types, and sometimes the tile of a block. The op's shapes
may say how many items there are; otherwise a scan has at least one item more than all its blocks
but the last can hold. Names come from the trace and may be long and odd: every pattern is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from foretrace.base.patterns import regex
from foretrace.work.costs._call import SIZES, OpCall, Tensor, total
from foretrace.work.traffic import Certainty

NO_TYPE = "the element type of a tensor list is not recorded"
_PREFIX = {
    Certainty.AT_LEAST: "at least: ",
    Certainty.AT_MOST: "at most: ",
    Certainty.ESTIMATE: "estimate: ",
}
Entry = TypeVar("Entry")
Tensors = Iterable[Tensor | None]


class Cost(Struct, frozen=True):
    """What one call computes and moves: each distinct input read once, each output written once.

    None means not known, never zero. `touched` is the total where reads and writes are not known
    apart, or only one of them is. `note` says what was left out or why nothing is known.
    `matmuls` is the number of equal matmuls that make up `flops` (two in a convolution's
    backward); separate kernels may compute them. `least` is what an estimate cannot fall below; it
    stands for the bytes where the time of a kernel contradicts them.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    note: str = ""
    certainty: Certainty = Certainty.EXACT
    touched: int | None = None
    matmuls: int = 1
    least: int | None = None

    def __post_init__(self) -> None:
        if self.bytes is None:
            force_setattr(self, "certainty", Certainty.NONE)

    @property
    def bytes(self) -> int | None:
        """Bytes in and out where both are known, else `touched`."""
        if self.bytes_read is None or self.bytes_written is None:
            return self.touched
        return self.bytes_read + self.bytes_written

    @property
    def text(self) -> str:
        """The certainty and the note as one phrase, such as `at least: reads the input`."""
        return _PREFIX.get(self.certainty, "") + self.note


class Launch(Struct, frozen=True):
    """One of the kernels that a call launched; `blocks` is its number of thread blocks, or 0."""

    name: str
    role: str = ""
    blocks: int = 0


Price = Callable[[OpCall], Cost | None]
Share = Callable[[OpCall, Launch, Sequence[Launch]], Cost | None]


class CostKind(Struct, frozen=True):
    """The prices of one kind of op, by op name; a name that ends in `*` covers all that begin so.

    A price returns None for a call that it cannot interpret; such a call has no cost. A share
    states what one of several kernels of a call moves at least; None if its name does not say.
    `with_context`: the prices depend on the requests of a step.
    """

    prices: Mapping[str, Price]
    shares: Mapping[str, Share] = field(default_factory=dict)
    with_context: bool = False


def table(names: str, entry: Entry, prefix: str = "aten::") -> dict[str, Entry]:
    """The same price or share for each of these ops."""
    return {f"{prefix}{name}": entry for name in names.split()}


def moved(
    reads: Tensors,
    writes: Tensors,
    flops: int | None = None,
    note: str = "",
    certainty: Certainty = Certainty.EXACT,
) -> Cost:
    """The cost of reading and writing these tensors once each."""
    return Cost(flops, total(reads), total(writes), note, certainty)


def moved_lists(call: OpCall, reads: Tensors, writes: Tensors, flops: int | None = None) -> Cost:
    """The same for tensors of lists, whose element type may not be recorded."""
    return moved(reads, writes, flops, "" if call.list_type else NO_TYPE)


def at_least(
    reads: Tensors | None, writes: Tensors | None, note: str, flops: int | None = None
) -> Cost:
    """A lower bound; None for a side of which nothing is certain."""
    read, written = (None if side is None else total(side) for side in (reads, writes))
    known = written if reads is None else read if writes is None else None
    return Cost(flops, read, written, note, Certainty.AT_LEAST, known)


def takes(
    signature: str,
    note: str = "",
    *,
    flops: int | None = None,
    per: int | None = None,
    least: bool = False,
) -> Price:
    """The price of an op by its arguments in their order, such as `out in in? - -> 1 bool`.

    An argument is read (`in`), written (`out`), both, or neither (`-`); `?` where it may be absent.
    Behind the arrow are new results, dense and as large as an argument, and perhaps of another
    type: by name, or that of the dtype argument `@3`, if given. `flops` is for all, or one for each
    element of the argument `per`. `least` is a lower bound; without anything written, that side is
    not known.
    """
    arguments, _, made = signature.partition(" -> ")
    places = [(at, word) for at, word in enumerate(arguments.split()) if word != "-"]
    results = [each.split(maxsplit=1) for each in made.split(", ") if each]
    unknown_side = not made and all(word.startswith("in") for _, word in places)

    def price(call: OpCall) -> Cost:
        given = [(w, call.tensor(at) if w.endswith("?") else call.need(at)) for at, w in places]
        reads = [tensor for word, tensor in given if not word.startswith("out")]
        writes = [tensor for word, tensor in given if not word.startswith("in")]
        for at, *kind in results:
            named = [call.scalar_type(int(k[1:])) if k[0] == "@" else k for k in kind]
            writes.append(call.need(int(at)).dense(*named))
        count = flops if per is None else call.need(per).elements
        if least:
            return at_least(reads, None if unknown_side else writes, note, count)
        return moved(reads, writes, count, note)

    return price


def unknown(why: str) -> Cost:
    """The cost of an op whose arguments do not say what it moves."""
    return Cost(None, None, None, why)


UNSIZED = unknown("the profiler records no sizes for lists of more than 30 tensors")


def unstated(why: str) -> Price:
    """The price of ops whose arguments never say what they move."""
    return lambda call: unknown(why)


# ATen's multi-tensor kernels give each block one chunk of this many elements (kChunkSize in
# MultiTensorApply.cuh).
CHUNK = 65_536
# Blocks of one launch at most, and tensors of one launch at most by the number of lists
# (depth_to_max_blocks and depth_to_max_tensors there). Kernel arguments hold 4 KiB, or 32 KiB in
# builds for CUDA 13 and later.
_FEW, _MANY = 320, 2240
_TENSORS = {_FEW: (110, 64, 48, 36, 30), _MANY: (770, 448, 336, 252, 210)}
# A radix sort takes 8 bits of the keys per sweep (ONESWEEP_RADIX_BITS in dispatch_radix_sort.cuh).
BINS = 256
# Nominal items per thread are for 4-byte values; others scale (MemBoundScaling, util_arch.cuh).
NOMINAL = 4

# `CatArrayBatchedCopy<...OpaqueType<2u>...>` moves elements of 2 bytes;
# `BinaryOpScalarFunctor<c10::BFloat16, ...>` is the functor of a multi-tensor kernel.
_OPAQUE = regex(r"OpaqueType<(\d{1,9})u?l?>")
_TYPED = regex(r"(?:CatArrayBatchedCopy\w{0,60}|\wFunctor)<([A-Za-z_][\w: ]{0,60}?) ?[,>]")
# `BinaryOpScalarFunctor<T, depth, r_args_depth, res_arg_index>` reads r_args_depth lists.
_FUNCTOR = regex(r"\wFunctor<([\w: ]{1,60}), (\d{1,9}), (\d{1,9}), (\d{1,9})>")
_STEP = regex(r"DeviceRadixSort(\w{1,40}?)Kernel<")
_SORTED = regex(
    r"(?:policy_hub|DeviceRadixSortPolicy)<([\w ]{1,60}), ([^,]{1,200}), ([\w ]{1,60})>"
)
_POLICY = regex(r"AgentScanPolicy<(\d{1,9}), (\d{1,9}), ([\w ]{1,60}),")
_SCANNED = regex(r">, ([\w ]{1,60}?)(?: const)?\*, ([\w ]{1,60})\*,")
_STATE = regex(
    r"Device(?:Scan|Compact)InitKernel<(?:\w{1,60}::){0,6}ScanTileState<([\w ]{1,60}), true>"
)


def after(name: str, template: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The first match behind the first occurrence of `template`."""
    at = name.find(template)
    return pattern.search(name, at + len(template)) if at >= 0 else None


def element_type(kernel_name: str) -> str:
    """The element type that a kernel over a tensor list states in its name, or ""."""
    opaque = _OPAQUE.search(kernel_name)
    if opaque:
        return f"OpaqueType<{opaque[1]}>"
    typed = _TYPED.search(kernel_name)
    return typed[1] if typed and typed[1] in SIZES else ""


def multi_tensor(kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """What a chunked multi-tensor kernel moves at least; None for any other kernel."""
    found = after(kernel.name, "multi_tensor_apply_kernel<", _FUNCTOR)
    size = SIZES.get(found[1]) if found else None
    if found is None or size is None:
        return None
    chunks, note = whole_chunks(kernel, kernels, int(found[2]))
    if not chunks:
        return Cost(None, None, None, note)
    elements = chunks * CHUNK
    read, written = int(found[3]) * elements * size, elements * size
    return Cost(elements, read, written, note, Certainty.AT_LEAST)


def whole_chunks(kernel: Launch, kernels: Sequence[Launch], lists: int) -> tuple[int, str]:
    """How many of a launch's chunks are whole for certain, 0 if none is; and a note of it.

    Each block has one chunk, and only the last chunk of a tensor is cut. A launch that reached the
    limit of blocks, or exceeded that of the smaller one, tells which limits the build has.
    """
    most = max((each.blocks for each in kernels if each.name == kernel.name), default=0)
    limit = _FEW if most == _FEW else _MANY if most > _FEW else 0
    sized = limit and 0 < lists <= len(_TENSORS[limit])
    chunks = max(0, kernel.blocks - _TENSORS[limit][lists - 1]) if sized else 0
    if not chunks:
        why = "their sizes are not recorded"
        return 0, f"{kernel.blocks} chunks of up to {CHUNK:,} elements; {why}"
    counted = f"{chunks} of {kernel.blocks} chunks of {CHUNK:,} elements"
    return chunks, f"{counted}; the others may be cut"


def cub_part(kernel: Launch, items: int | None = None) -> Cost | None:
    """What a kernel of CUB moves at least; None for any other, or where `items` is missing."""
    state = _STATE.search(kernel.name)
    if state and kernel.blocks > 0:
        states = Tensor((kernel.blocks, 2), state[1])
        return at_least([], [states], "writes the state of one tile per block of the scan")
    return _sort(kernel, items) or _scan(kernel)


def _sort(kernel: Launch, items: int | None) -> Cost | None:
    named = _STEP.search(kernel.name)
    found = _SORTED.search(kernel.name, named.end()) if named else None
    if named is None or found is None:
        return None
    step, (key, value, offset) = named[1], found.groups()
    if step == "ExclusiveSum" and kernel.blocks > 0:
        counts = [Tensor((kernel.blocks, BINS), offset)]
        return at_least(counts, counts, f"reads and writes {BINS} counts of keys per block")
    if items is None:
        return None
    keys, values = Tensor((items,), key), Tensor((items,), value.rpartition("::")[2])
    if step == "Histogram":
        return at_least([keys], None, "reads the keys")
    if step != "Onesweep":
        return None
    if values.type in SIZES:
        return at_least([keys, values], [keys, values], "reads and writes keys and values")
    return at_least([keys], [keys], "reads and writes the keys")


def _scan(kernel: Launch) -> Cost | None:
    policy = after(kernel.name, "DeviceScanKernel<", _POLICY)
    found = _SCANNED.search(kernel.name, policy.end()) if policy else None
    size = SIZES.get(policy[3]) if policy else None
    if policy is None or found is None or size is None or kernel.blocks < 2:
        return None
    threads, nominal = int(policy[1]), int(policy[2])
    tile = threads * max(1, min(nominal * NOMINAL // size, 2 * nominal))
    items = (kernel.blocks - 1) * tile + 1
    note = f"scans {kernel.blocks - 1} whole tiles of {tile:,} items and one item more"
    return at_least([Tensor((items,), found[1])], [Tensor((items,), found[2])], note)
