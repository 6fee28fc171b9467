"""`OpCall`, one call of one op as the trace recorded it, its `Tensor` arguments, and its `Cost`.

Element types are the C++ names of a trace (`c10::BFloat16`, `long int`). The short names of kernel
names (`bf16`, `fp32`) are known too, because only there is the element type of a list stated.

The names of CUB's sorts and scans state types, and sometimes the tile of a block. The op's shapes
may say how many items there are; otherwise a scan has at least one item more than all its blocks
but the last can hold. Names come from the trace and may be long and odd: every pattern is bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from foretrace.base.patterns import regex
from foretrace.work.kernel import Certainty

SIZES: dict[str, int] = {
    "bool": 1, "unsigned char": 1, "signed char": 1, "char": 1, "c10::quint8": 1, "c10::qint8": 1,
    "short int": 2, "short": 2, "unsigned short": 2, "short unsigned int": 2,
    "int": 4, "unsigned int": 4, "c10::qint32": 4,
    "long int": 8, "long": 8, "long long": 8, "__int64": 8,
    "unsigned long": 8, "long unsigned int": 8, "unsigned long long": 8,
    "c10::Half": 2, "c10::BFloat16": 2, "float": 4, "double": 8,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1, "c10::Float8_e8m0fnu": 1, "c10::Float4_e2m1fn_x2": 1,
    "c10::complex<c10::Half>": 4, "c10::complex<float>": 8, "c10::complex<double>": 16,
    "OpaqueType<1>": 1, "OpaqueType<2>": 2, "OpaqueType<4>": 4, "OpaqueType<8>": 8,
    "OpaqueType<16>": 16, "fp8": 1, "bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp64": 8,
    "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip

# c10::ScalarType by its number, as `Concrete Inputs` shows a dtype argument.
SCALAR_TYPES: dict[int, str] = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half",
    6: "float", 7: "double", 8: "c10::complex<c10::Half>", 9: "c10::complex<float>",
    10: "c10::complex<double>", 11: "bool", 15: "c10::BFloat16", 23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn", 25: "c10::Float8_e5m2fnuz", 26: "c10::Float8_e4m3fnuz",
    27: "short unsigned int", 28: "unsigned int", 29: "long unsigned int",
    44: "c10::Float8_e8m0fnu", 45: "c10::Float4_e2m1fn_x2",
}  # fmt: skip

# Arguments that are not tensors, as a trace types them; an absent optional argument has type "".
NOT_TENSORS = frozenset(
    {"", "Scalar", "ScalarList", "TensorList", "GenericList", "None", "Device", "Stream"}
)

BOOL, INTEGER, FLOATING, COMPLEX = range(4)
_FLOATING = frozenset(
    {"float", "double", "bf16", "fp16", "fp32", "tf32", "fp64", "fp8", "c10::Half", "c10::BFloat16"}
)


def category(type_name: str) -> int:
    """`BOOL` < `INTEGER` < `FLOATING` < `COMPLEX`: the highest among the operands decides."""
    if type_name == "bool":
        return BOOL
    if "complex" in type_name:
        return COMPLEX
    return FLOATING if type_name in _FLOATING or type_name.startswith("c10::Float") else INTEGER


def promote(types: Iterable[str]) -> str:
    """The type in which operands of these types are computed, all having dimensions; "" for none.

    The widest of the highest category; bfloat16 with half gives float, and unsigned with signed
    bytes gives shorts.
    """
    found = sorted(set(types), key=lambda name: (category(name), SIZES.get(name, 0)))
    if not found:
        return ""
    top = [name for name in found if category(name) == category(found[-1])]
    if {"c10::Half", "c10::BFloat16"} <= set(top) and SIZES.get(top[-1]) == 2:
        return "float"
    if {"unsigned char", "signed char"} <= set(top) and SIZES.get(top[-1]) == 1:
        return "short int"
    return top[-1]


def with_number(type_name: str, number_category: int) -> str:
    """The type of a tensor and a plain number, which decides only if its category is higher."""
    if type_name and category(type_name) >= number_category:
        return type_name
    return ("bool", "long int", "float", "c10::complex<float>")[number_category]


_SHORT = {
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "float": "f32",
    "double": "f64",
    "long int": "i64",
    "int": "i32",
    "unsigned char": "u8",
    "signed char": "i8",
    "c10::Float8_e4m3fn": "e4m3",
    "c10::Float8_e5m2": "e5m2",
}


def short_type(name: str) -> str:
    """`c10::BFloat16` -> `bf16`."""
    return _SHORT.get(name, name)


class Unpriced(LookupError):
    """The call has no tensor where a price needs one; the call then has no cost."""


class Tensor(Struct, frozen=True):
    """A tensor's shape and type; without strides it counts as dense."""

    dims: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """How many elements a reader sees, repeats included."""
        return math.prod(self.dims)

    @property
    def stored(self) -> int:
        """How many distinct elements memory holds: an expanded dimension (stride 0) is stored once.

        Windows that overlap (`unfold`) are bounded by the span of addresses they cover.
        """
        if self.strides is None or len(self.strides) != len(self.dims) or not self.elements:
            return self.elements
        pairs = zip(self.dims, self.strides, strict=True)
        moving = [(dim, abs(stride)) for dim, stride in pairs if stride]
        span = 1 + sum((dim - 1) * stride for dim, stride in moving)
        return min(math.prod(dim for dim, _ in moving), span)

    @property
    def bytes(self) -> int | None:
        """Bytes in memory, each distinct element once; None if the type's size is not known."""
        size = SIZES.get(self.type)
        return None if size is None else self.stored * size

    @property
    def text(self) -> str:
        """`[64, 128, 3072] bf16`."""
        return f"[{', '.join(str(size) for size in self.dims)}] {short_type(self.type)}"

    def dense(self, type_name: str | None = None) -> Tensor:
        """A new tensor of this shape, of this type or the given one."""
        return Tensor(self.dims, type_name or self.type)


class Context(Struct, frozen=True):
    """The requests that one step of a serving engine works on, as sums over the requests.

    `queries` new tokens look at `keys` tokens, the new ones among them. `pairs` adds up the matmul
    of the two, and `squares` that of the new tokens with themselves.
    """

    requests: int
    queries: int
    keys: int
    pairs: int
    squares: int

    @property
    def causal_pairs(self) -> int:
        """Pairs of a new token and a token that does not follow it."""
        return self.pairs - (self.squares - self.queries) // 2


class OpCall(Struct, frozen=True):
    """What a trace says about one call.

    The four lists run in parallel, one entry per argument in schema order; any may be missing
    (older traces have no concrete inputs). `list_type` is the element type of tensor lists, which
    the profiler leaves out: a caller takes it from the kernel's name (`element_type`). `kernel` is
    the name of the call's first kernel, which may state what the arguments do not. `context` has
    the requests of the step, where an annotation names them.
    """

    name: str
    dims: Sequence[Any] = ()
    types: Sequence[str] = ()
    strides: Sequence[Any] = ()
    concrete: Sequence[str] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    list_type: str = ""
    kernel: str = ""
    context: Context | None = None

    def tensor(self, index: int) -> Tensor | None:
        """Argument `index` as a tensor; None if it is absent, a number, a list or malformed."""
        kind, dims = _at(self.types, index), _sizes(_at(self.dims, index))
        if not isinstance(kind, str) or kind in NOT_TENSORS or dims is None:
            return None
        return Tensor(dims, kind, _integers(_at(self.strides, index)))

    def need(self, index: int) -> Tensor:
        """Argument `index` as a tensor that the price cannot do without."""
        found = self.tensor(index)
        if found is None:
            raise Unpriced(f"{self.name} has no tensor at {index}")
        return found

    def tensors(self, index: int) -> tuple[Tensor, ...] | None:
        """Argument `index` as a list of tensors; None if it is no list or has no recorded sizes.

        The profiler leaves out the sizes of lists of more than 30 tensors. Such a list looks like
        an empty one, and an empty one launches nothing.
        """
        dims, strides = _at(self.dims, index), _at(self.strides, index)
        if _at(self.types, index) != "TensorList" or not isinstance(dims, list | tuple) or not dims:
            return None
        sizes = [entry for each in dims if (entry := _sizes(each)) is not None]
        if len(sizes) < len(dims):
            return None
        return tuple(
            Tensor(entry, self.list_type, _integers(_at(strides, place)))
            for place, entry in enumerate(sizes)
        )

    def tensor_lists(self) -> list[tuple[Tensor, ...]] | None:
        """All lists in order; None without any, or if the sizes of one are missing."""
        places = [index for index, kind in enumerate(self.types) if kind == "TensorList"]
        found = [each for index in places if (each := self.tensors(index)) is not None]
        return found if found and len(found) == len(places) else None

    def arguments(self, start: int = 0) -> list[Tensor | None]:
        """The tensor arguments from `start` on, None where an argument is not a tensor."""
        return [self.tensor(index) for index in range(start, len(self.types))]

    def every_tensor(self) -> tuple[Tensor, ...]:
        """All tensor arguments, lists opened, in order."""
        found: list[Tensor] = []
        for index in range(len(self.dims)):
            one = self.tensor(index)
            found += [one] if one else self.tensors(index) or ()
        return tuple(found)

    @property
    def operand_type(self) -> str | None:
        """The type of the first tensor with dimensions, for kernels whose name states none."""
        return next((each.type for each in self.every_tensor() if each.dims and each.type), None)

    def text(self, index: int) -> str:
        """The recorded value of argument `index`; "" for tensors, None and strings."""
        value = _at(self.concrete, index)
        return value if isinstance(value, str) else ""

    def number(self, index: int) -> float | None:
        """The recorded value as a number (`True` is 1); None if it was not recorded."""
        return _number(self.text(index))

    def integer(self, index: int) -> int | None:
        """The recorded value as a whole number; None if it was not recorded or is not finite."""
        number = self.number(index)
        return int(number) if number is not None and math.isfinite(number) else None

    def flag(self, index: int) -> bool | None:
        """The recorded flag; None if it was not recorded."""
        return {"True": True, "False": False}.get(self.text(index))

    def numbers(self, index: int) -> tuple[int, ...] | None:
        """The recorded list of integers or flags, or a lone integer as a list; else None."""
        parts = [_number(part) for part in self.text(index).strip("[]").split(",") if part.strip()]
        found = [int(part) for part in parts if part is not None and math.isfinite(part)]
        return tuple(found) if self.text(index) and len(found) == len(parts) else None

    def scalar_type(self, index: int) -> str | None:
        """The type that a dtype argument names; None if absent or not recorded."""
        code = self.integer(index)
        return None if code is None else SCALAR_TYPES.get(code)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that these shapes broadcast to; None if they do not fit."""
    width = max((len(shape) for shape in shapes), default=0)
    out: list[int] = []
    for column in zip(*((1,) * (width - len(shape)) + shape for shape in shapes), strict=True):
        sizes = {size for size in column if size != 1}
        if len(sizes) > 1:
            return None
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def total(tensors: Iterable[Tensor | None]) -> int | None:
    """Bytes of these tensors together, absent ones left out; None if one has an unknown type."""
    sizes = [tensor.bytes for tensor in tensors if tensor is not None]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _at(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list | tuple) and 0 <= index < len(items) else None


def _integers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
        return tuple(value)
    return None


def _sizes(value: Any) -> tuple[int, ...] | None:
    found = _integers(value)
    return None if found is None or min(found, default=0) < 0 else found


def _number(text: str) -> float | None:
    text = text.strip()
    if text in ("True", "False"):
        return int(text == "True")
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


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
