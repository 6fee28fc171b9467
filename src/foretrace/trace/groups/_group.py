"""`WorkGroup`: what a model's author calls some of the GPU work; `GpuWork`: what it is found from.

A million launches are some hundred kinds. Every kernel is one word, every word one character, so
that a stream is a text and a pattern a regular expression: a million kernels take a fraction of a
second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import coded
from foretrace.base.patterns import regex
from foretrace.trace.autograd import ENGINE, STEP, in_closure
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.module_calls import ModuleCalls, class_of
from foretrace.trace.recording import Recording, op_call
from foretrace.work import families
from foretrace.work.costs import OpCall, cost
from foretrace.work.kernel import KernelId

MATMULS = frozenset({"gemm", "gemv"})
_NODE = regex(rf"{ENGINE}|Backward\d*$")


class GpuWork(Struct, frozen=True, dict=True):
    """One distinct kind of launch: a kernel, memcpy or memset, and what launched it.

    `path` are the ops and regions above the launch, outermost first. `call` has the arguments of
    the op, `module` the class of the innermost nn.Module; None and "" where not recorded.
    """

    id: KernelId
    role: str
    path: tuple[str, ...]
    call: OpCall | None
    module: str

    @cached_property
    def ops(self) -> frozenset[str]:
        """Names in the path as plain words: `aten::_fused_adamw_` is `fused_adamw`.

        Without an op in the path (a graph's kernels have none), the op that the name states.
        """
        stated = str(self.id.get("op") or "").partition(" ")[0]
        names = self.path if any("::" in name for name in self.path) else (*self.path, stated)
        return frozenset(plain(name) for name in names if not name.startswith("triton_"))

    @cached_property
    def origins(self) -> frozenset[str]:
        """The ops that Inductor lists in the kernel's name: where its code comes from."""
        listed = self.id.get("ops") if self.id.family.startswith("inductor") else None
        return frozenset(listed or ())

    @cached_property
    def reduces(self) -> bool:
        """An Inductor kernel with a reduction in it."""
        return self.id.get("category") in ("reduction", "persistent_reduction")

    @cached_property
    def words(self) -> str:
        """What a hand-written kernel calls itself; Inductor's and ATen's names say other things."""
        if self.id.family.startswith(("inductor", "aten_")):
            return ""
        return f"{self.id.short} {self.id.name[:200]}".lower()

    @cached_property
    def backward(self) -> bool:
        """Launched by a node of autograd's backward pass."""
        nodes = [name for name in self.path if _NODE.search(name)]
        return bool(nodes) and "Checkpoint" not in nodes[-1]


class Pattern(Struct, frozen=True):
    """A sequence of kernels on one stream, as a regular expression over words.

    The words are ops; `gemm` is a matmul, `bmm` a batched one, `cast` a copy that changes
    the type. With `same_size`, the first and the last kernel work on equally many elements.
    With `one_size`, all tensors of the last op have one size. With `gate`, matmuls made both its
    operands. Matmuls in a match stay matmuls unless `matmuls` is set.
    """

    text: str
    same_size: bool = False
    one_size: bool = False
    gate: bool = False
    matmuls: bool = False

    def is_sound(self) -> bool:
        """Whether it compiles; a letter will stand for each word. A test asks ours."""
        try:
            return bool(re.compile(_WORD.sub("w", self.text).replace(" ", "")))
        except re.error:
            return False


class WorkGroup(Struct, frozen=True):
    """Names some GPU work. Groups are tried in `order`, low first.

    `name_of` returns the name, or "" for work that is not the group's. `patterns` find kernels that
    only their neighbours explain. A `weak` group says what a kernel does, not what for: a pattern
    may take its kernels. The backward pass of an op has the op's group where `with_backward`.
    """

    name: str
    order: int
    name_of: Callable[[GpuWork], str]
    patterns: tuple[Pattern, ...] = ()
    weak: bool = False
    with_backward: bool = True


def told(
    name: str,
    order: int,
    test: Callable[[GpuWork], object],
    patterns: tuple[Pattern, ...] = (),
    **more: bool,
) -> WorkGroup:
    """A group of one name: that of all work that passes a test."""
    return WorkGroup(name, order, lambda work: name if test(work) else "", patterns, **more)


def plain(name: str) -> str:
    """`aten::_softmax` -> `softmax`."""
    return name.rpartition("::")[2].strip("_")


def says(pattern: str, *texts: str) -> bool:
    """Whether one of the texts has the pattern, which is compiled at first use."""
    return any(re.search(pattern, text) for text in texts)


def words(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


def gated(name: str, activation: str, kernels: str) -> WorkGroup:
    """An activation of one matmul's result times another's; `kernels` matches names of fused ones.

    A generated kernel of both may multiply by a constant: what stands before it decides. Its
    backward pass computes the activation again only where the other factor has a gradient.
    """

    def test(work: GpuWork) -> object:
        if work.origins:
            return work.backward and work.origins >= {activation, "mul"} and not work.reduces
        return says(kernels, work.words, *work.ops) and work.role not in MATMULS

    apart = Pattern(f"{activation} gemm* mul", same_size=True, one_size=True, gate=True)
    together = Pattern(f"{activation}_mul", gate=True)
    return told(name, 52, test, (apart, together))


# Ops whose sizes say what they are for; the arguments of the others do not matter here.
SIZED = frozenset({"aten::cat", "aten::copy_", "aten::index_copy_", "aten::index_put_"})
_FIRST = 0x100  # characters below are regular expression syntax
_OTHER = "\x01"  # any word that no pattern has
_WORD = regex(r"\w+")
_LARGEST = 1 << 62  # sizes beyond are no tensor's, and no number of NumPy's
# Of the ops that Inductor's kernels come from, those that a pattern needs; the first counts.
_ORIGINS = {
    "nll_loss_forward": "nll_loss",
    "_log_softmax": "log_softmax",
    "_softmax": "softmax",
}
_GATED = {"gelu": "gelu_mul", "silu": "silu_mul"}
_MOVES = words("copy to contiguous clone reshape flatten type float half bfloat16 type_as")


class Distinct:
    """`kinds` has one entry per kind; `kind` is the place in it of every row of `gpu`."""

    def __init__(self, trace: Recording, modules: ModuleCalls) -> None:
        self.trace, self.modules, gpu, origins = trace, modules, trace.gpu, trace.origins
        host, op = origins.host, origins.op
        above = (host.is_op | host.is_region) & host.lasting
        self.paths = host.paths(above)
        # What a closure runs is not below the step of the optimizer that calls it
        is_step = host.named(lambda name: name.startswith(STEP))
        over = self.paths.above
        inner = np.flatnonzero((over >= 0) & is_step[over])
        inner = inner[in_closure(self.trace, inner)]
        over[inner] = over[over[inner]]
        self.event: Ints = host.nearest(origins.launch, above)
        lost = (self.event < 0) & (op >= 0)  # linked to an op, not to a launch
        self.event[lost] = op[lost]
        sized = host.named(SIZED.__contains__)[np.maximum(op, 0)] & (op >= 0)
        self.signature: Ints = np.where(sized, origins.arguments.numbers(op), -1)
        classes, module = self._classes()
        columns = (
            host.name[gpu.id],
            self.paths.numbers(self.event),
            self.signature,
            module,
        )
        _, first, self.kind = np.unique(numbered(*columns), return_index=True, return_inverse=True)
        self.kinds = [self._work(row, classes[module[row]]) for row in first.tolist()]

    def _classes(self) -> tuple[list[str], Ints]:
        """Classes of modules, "" last, and the place of each row's: -1 without a module."""
        host, own = self.trace.origins.host, self.modules.own
        name = np.where(own >= 0, host.name[np.maximum(own, 0)], -1)
        numbers, place = coded(name)
        written = [class_of(host.names[number]) if number >= 0 else "" for number in numbers]
        classes = sorted({*written, ""}, reverse=True)
        return classes, np.array([classes.index(each) for each in written], np.int64)[place]

    def _work(self, row: int, module: str) -> GpuWork:
        trace, origins = self.trace, self.trace.origins
        host = origins.host
        event, number = int(self.event[row]), int(self.signature[row])
        path = self.paths.names(event, host.names)
        op = int(origins.op[row])
        name = host.names[host.name[trace.gpu.id[row]]]
        call = None
        if number >= 0:
            call = origins.arguments.signatures[number].call(host.names[host.name[op]])
        decoded = families.decode(name)
        role = families.role_for(name, host.names[host.name[op]] if op >= 0 else None)
        return GpuWork(decoded, role, path, call, module)


class Sequence:
    """The chosen GPU rows by stream, in the order of their launches, as words."""

    def __init__(
        self, trace: Recording, distinct: Distinct, chosen: Bools, patterns: Iterable[Pattern]
    ) -> None:
        gpu, self.trace, self.origins = trace.gpu, trace, trace.origins
        order = gpu.launch_order[chosen[gpu.launch_order]]
        self.row: Ints = order[np.argsort(gpu.lane[order], kind="stable")]
        used = sorted({each for pattern in patterns for each in _WORD.findall(pattern.text)})
        self.letter = {each: chr(_FIRST + at) for at, each in enumerate(used)}
        letters = np.array(
            [ord(self.letter.get(word(work), _OTHER)) for work in distinct.kinds], np.uint32
        )
        self.kind = kind = distinct.kind[self.row]
        self._known: dict[bytes, bool] = {}
        text = letters[kind]
        self.is_matmul: Bools = np.array([each.role in MATMULS for each in distinct.kinds])[kind]
        self.is_linear: Bools = np.array([_in_linear(each) for each in distinct.kinds])[kind]
        step = trace.spans.step_of_work()[self.row]  # no pattern joins two of them
        edges = np.flatnonzero((np.diff(gpu.lane[self.row]) != 0) | (np.diff(step) != 0)) + 1
        self.streams = [
            (int(part[0]), text[part].tobytes().decode("utf-32-le"))
            for part in np.split(np.arange(len(self.row)), edges)
            if len(part)
        ]

    @cached_property
    def elements(self) -> Ints:
        """Elements of the largest tensor of each kernel's op; -1 where not recorded."""
        sizes = [
            min(max((math.prod(size) for size in each.tensors), default=-1), _LARGEST)
            for each in self.origins.arguments.signatures
        ]
        return np.array([*sizes, -1], np.int64)[self.signature]

    @cached_property
    def one_size(self) -> Bools:
        """Whether each op has several tensors, all of one size; True where not recorded."""
        sizes = [each.tensors for each in self.origins.arguments.signatures]
        one = [len(each) > 1 and all(size == each[0] for size in each) for each in sizes]
        return np.array([*one, True], bool)[self.signature]

    @cached_property
    def signature(self) -> Ints:
        """The number of the arguments of each kernel's op."""
        return self.origins.arguments.numbers(self.origins.op[self.row])

    def matches(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        """(first, end) in the order of `row` of every match."""
        written = _WORD.sub(lambda found: self.letter[found[0]], pattern.text)
        found = re.compile(written.replace(" ", ""))
        for base, text in self.streams:
            for match in found.finditer(text):
                first, end = base + match.start(), base + match.end()
                same = not pattern.same_size or self.elements[first] == self.elements[end - 1]
                one = not pattern.one_size or self.one_size[end - 1]
                if same and one and (not pattern.gate or self._gated(base, first, end)):
                    yield first, end

    def _gated(self, base: int, first: int, end: int) -> bool:
        """Whether the matmuls just before and inside a match made both factors of its last op.

        One matmul may make both. Without recorded sizes there must be two.
        """
        start = first
        while start > base and self.is_linear[start - 1]:
            start -= 1
        # steps repeat themselves: what the same kinds of work with the same arguments make is known
        key = self.kind[start:end].tobytes() + self.signature[start:end].tobytes()
        if key not in self._known:
            self._known[key] = self._makes_factors(start, end)
        return self._known[key]

    def _makes_factors(self, start: int, end: int) -> bool:
        rows = self.row[start:end][self.is_matmul[start:end]]
        factors = op_call(self.trace, int(self.origins.op[self.row[end - 1]]))
        if factors is None:
            return len(rows) > 1
        size = factors.every_tensor()[-1].bytes if factors.every_tensor() else None
        calls = [op_call(self.trace, op) for op in {*self.origins.op[rows].tolist()}]
        prices = [cost(call) for call in calls if call]
        made = [price.bytes_written for price in prices if price]
        return size is not None and made.count(size) + 2 * made.count(2 * size) > 1


def is_matmul(work: GpuWork) -> bool:
    """A matmul, or the sum of its split-K parts."""
    return work.role in MATMULS or work.id.get("op") == "splitk_reduce"


def _in_linear(work: GpuWork) -> bool:
    """A matmul, or what its op launches beside it, such as a bias."""
    return not work.backward and (is_matmul(work) or bool(work.ops & {"linear", "addmm"}))


def word(work: GpuWork) -> str:
    """The op as a plain word; "" in the backward pass, which follows its forward ops."""
    if work.backward:
        return ""
    if is_matmul(work):
        return "bmm" if work.ops & {"bmm", "baddbmm"} else "gemm"
    if work.origins:
        known = _ORIGINS if work.reduces else _GATED if "mul" in work.origins else {}
        return next((name for op, name in known.items() if op in work.origins), "")
    called = ""
    for name in reversed(work.path):
        if not name.startswith("aten::"):
            break
        called = name
    op = plain(called or str(work.id.get("op") or "").split(" ")[0])
    if op in _MOVES:
        return "cast" if changes_type(work) else "copy"
    return op


def changes_type(work: GpuWork) -> bool:
    """A copy from one element type to another."""
    target, source = (work.call.tensor(0), work.call.tensor(1)) if work.call else (None, None)
    if target and source:
        return target.type != source.type
    stated = work.id.get("src_dtype"), work.id.get("dst_dtype")
    return "cast)" in work.id.short or (all(stated) and stated[0] != stated[1])
