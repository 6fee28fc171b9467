"""`WorkGroup`: what a model's author calls some of the GPU work, and `GpuWork`, what it is found
from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.model.autograd import ENGINE
from foretrace.model.costs import OpCall
from foretrace.schema.kernel import KernelId

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

    def __post_init__(self) -> None:
        # a mistake shows where the pattern is written; a letter will stand for each word
        re.compile(re.sub(r"\w+", "w", self.text).replace(" ", ""))


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


def named(name: str, test: Callable[[GpuWork], object]) -> Callable[[GpuWork], str]:
    """A `name_of` with one name."""
    return lambda work: name if test(work) else ""


def plain(name: str) -> str:
    """`aten::_softmax` -> `softmax`."""
    return name.rpartition("::")[2].strip("_")


def word_test(pattern: str) -> Callable[[str], object]:
    """Searches for a pattern, which is compiled at first use."""
    return lambda text: re.search(pattern, text)


def words(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


def gated(name: str, activation: str, kernels: str) -> WorkGroup:
    """An activation of one matmul's result times another's; `kernels` matches names of fused ones.

    A generated kernel of both may multiply by a constant: what stands before it decides. Its
    backward pass computes the activation again only where the other factor has a gradient.
    """
    fused = word_test(kernels)

    def test(work: GpuWork) -> object:
        if work.origins:
            return work.backward and work.origins >= {activation, "mul"} and not work.reduces
        named_so = fused(work.words) or any(fused(op) for op in work.ops)
        return named_so and work.role not in MATMULS

    apart = Pattern(f"{activation} gemm* mul", same_size=True, one_size=True, gate=True)
    together = Pattern(f"{activation}_mul", gate=True)
    return WorkGroup(name, 52, named(name, test), (apart, together))
