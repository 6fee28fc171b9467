"""Inductor's scheduler as the log has it: nodes before and after fusion, and every choice.

A node has a head, `op2: SchedulerNode(ComputedBuffer)`, and fields, `op2.writes = [...]`, which may
have several lines. The members of a fused node follow it. Inductor tries pairs in rounds: `times`
counts how often. Forward and backward each have a scheduler, and both name their nodes `op0`, …:
`graph` is the place of the scheduler.

In a printed FX graph one node is one line, `mm: "bf16[8192, 3072][3072, 1]cuda:0" =
torch.ops.aten.mm.default(a, b)`. A comment `# File: model.py:27 in forward, code: …` holds for the
nodes below it. A line that is not understood is left out.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.read.compiler.records import (
    MEMBER,
    SHORT_TYPES,
    FusionChoice,
    FxGraph,
    GraphNode,
    NamedTensor,
    SchedulerNode,
    Size,
    SourceLine,
    Stage,
)
from foretrace.trace.compiled.syntax import dotted, parse

if TYPE_CHECKING:
    from foretrace.read.compiler import TextRecord


_INPUT = regex(r"(\w{1,1000}): \"([^\"]{0,2000})\"")
_TENSOR = regex(r"(\w{1,20})\[([^\]]*)\](?:\[([^\]]*)\])?([\w:]{0,40})")
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.MatMult: "matmul",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and_",
    ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.USub: "neg", ast.Invert: "invert", ast.Not: "not_", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_LONGEST = 100_000  # characters of one line


def parse_graph(text: str, stage: Stage) -> FxGraph:
    """The first graph of a print; graphs of its submodules follow it and are left out."""
    reader = _Lines()
    for line in text.splitlines():
        if not reader.take(line):
            break
    inputs = tuple(reader.inputs.values())
    return FxGraph(stage, tuple(reader.nodes), inputs, reader.outputs, text)


def tensor(name: str, text: str) -> NamedTensor | None:
    """`bf16[64, 128][128, 1]cuda:0` as a tensor; older prints have no strides and no device."""
    found = _TENSOR.fullmatch(text)
    if not found:
        return None
    dtype, shape, stride, device = found.groups()
    return NamedTensor(name, dtype, _sizes(shape), _sizes(stride or ""), device)


def source_line(comment: str) -> SourceLine | None:
    """`# File: model.py:27 in forward, code: …`; before torch 2.3 without the function."""
    _, _, rest = comment.partition("File: ")
    place, _, code = rest.partition(", code: ")
    file, _, last = place.rpartition(":")
    number, _, function = last.partition(" in ")
    if not file or not number.strip().isdecimal() or len(number) > 9:
        return None
    return SourceLine(file, int(number), function.strip(), code.strip())


class _Lines:
    """Reads line by line; `take` says whether the graph goes on."""

    def __init__(self) -> None:
        self.inputs: dict[str, NamedTensor] = {}
        self.nodes: list[GraphNode] = []
        self.outputs: tuple[str, ...] = ()
        self.known: set[str] = set()
        self.source: SourceLine | None = None
        self.in_head = self.in_body = self.in_return = False
        self.open = 0  # brackets of the returned value

    def take(self, line: str) -> bool:
        stripped = line.strip()
        if self.in_return:
            self._returned(stripped)
        elif not self.in_body:
            if stripped.startswith("def forward("):
                self.in_head = True
            if self.in_head:
                for name, text in _INPUT.findall(stripped[:_LONGEST]):
                    self._input(name, text)
                self.in_body = stripped.partition("  #")[0].endswith("):")
        elif stripped.startswith("#"):
            self.source = source_line(stripped)
        elif stripped.startswith("class "):
            return False
        elif stripped.startswith("return"):
            self.in_return = True
            self._returned(stripped.removeprefix("return").strip())
        elif stripped and len(stripped) <= _LONGEST:
            self._statement(stripped)
        return True

    def _input(self, name: str, text: str) -> None:
        self.inputs[name] = tensor(name, text) or NamedTensor(name)
        self.known.add(name)

    def _statement(self, line: str) -> None:
        module = parse(line)
        match module.body if module else []:
            case [ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value), *_]:
                text = kind.value if isinstance(kind, ast.Constant) else ""
                if value is None:
                    self._input(name, str(text))
                else:
                    self._node(name, value, tensor(name, str(text)))
            case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=before)), *_]:
                if before in self.inputs:  # `l_x_ = L_x_`: nodes use the second name
                    self.inputs[name] = replace(self.inputs.pop(before), name=name)
                    self.known.add(name)
            case [ast.Assign(targets=[ast.Name(id=name)], value=value), *_]:
                if not isinstance(value, ast.Constant):
                    self._node(name, value, None)

    def _node(self, name: str, value: ast.expr, made: NamedTensor | None) -> None:
        used = dict.fromkeys(node.id for node in ast.walk(value) if isinstance(node, ast.Name))
        inputs = tuple(each for each in used if each in self.known)
        self.nodes.append(GraphNode(name, self._target(value), inputs, made, self.source))
        self.known.add(name)

    def _target(self, value: ast.expr) -> str:
        match value:
            case ast.Call(func=function):
                name = dotted(function)
                first, _, method = name.partition(".")
                return f"Tensor.{method}" if first in self.known and method else name
            case ast.BinOp(op=kind) | ast.UnaryOp(op=kind) | ast.Compare(ops=[kind]):
                return f"operator.{_OPERATORS.get(type(kind), '')}"
            case ast.Subscript():
                return "operator.getitem"
            case ast.Attribute():
                return dotted(value)
        return ""

    def _returned(self, line: str) -> None:
        """Names after `return`, on one line or on several."""
        words = re.findall(r"\w{1,1000}", line.partition("  #")[0])
        self.outputs += tuple(word for word in words if word in self.known)
        self.open += line.count("(") + line.count("[") - line.count(")") - line.count("]")
        self.in_return = self.open > 0


_HEAD = regex(r"(\w+): (\w+)\(([\w,]*)\)")
_FIELD = regex(r"(\w+)\.([a-z_.]+)(?:\[\d+\])? =(.*)")
_LAYOUT = regex(r"(\w+)(?:_layout|\.layout) = (.*)")
_DEPENDENCY = regex(r"(?:Memory|Star)Dep\((?:name=)?'([^']*)'")
_WEAK = regex(r"WeakDep\((?:name=)?'([^']*)'")
_QUOTED = regex(r"'(\w+)'")
_NUMBER = regex(r"-?\d{1,18}")
_SIZES = regex(r"\w+\('([\w:]*)', torch\.(\w+), size=\[([^]]*)\], stride=\[([^]]*)\]")
_TERM = regex(r"(\d{1,18})?\*?([a-z]\d{1,9})?")
_RANGES = regex(r": ([^,{}]+)")
_KERNELS = {"ForeachKernelSchedulerNode": "foreach", "NopKernelSchedulerNode": "nop"}
# what a loop's body says of it; the first that occurs counts
_LOOPS = (("ops.sort(", "sort"), ("scan", "scan"), ("reduction", "reduction"))
_REFUSED = regex(r"cannot fuse (\w+) with (\w+): (.*)")
_FUSED = regex(r"fusing (\w+) with (\w+)")
_SLOWER = "cannot fuse (benchmark): fusing "
# the first of at most ten rounds: another scheduler begins
_FIRST_ROUND = regex(r"=* ?attempting fusion \(1/\d+\)")
_COLOUR = regex(r"\x1b\[[\d;]*m")
Pair = tuple[int, str, str, bool, str]  # graph, a, b, fused, words


def parse_nodes(text: str) -> tuple[SchedulerNode, ...]:
    """The nodes of one message, in their order; the members of a fused node are part of it."""
    found: list[list[_Block]] = []
    whole: frozenset[str] = frozenset()
    for block in _blocks(text.splitlines()):
        if block.name in whole and len(whole) > 1:
            found[-1].append(block)
        else:
            found.append([block])
            whole = frozenset(MEMBER.findall(block.name))
    return tuple(map(_node, found))


def elements(index: str) -> int | None:
    """How many elements `64*d0 + d1, {d0: 8, d1: 64}` visits; None where a size is a symbol."""
    sizes = _RANGES.findall(index[index.rfind("{") :])
    known = [int(size) for size in sizes if size.isdecimal() and len(size) < 19]
    return prod(known) if "{" in index and len(known) == len(sizes) else None


def walk(index: str) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """The order of elements: an offset, and (stride, size) of each loop, adjacent ones as one.

    `3072*d0 + d1, {d0: 8192, d1: 3072}` and `c0, {c0: 25165824}` are the same walk. None where the
    expression is not a sum of strides, or a size is a symbol.
    """
    expression, _, ranges = index.partition(", {")
    strides: dict[str, int] = {}
    offset = 0
    for term in expression.split(" + "):
        found = _TERM.fullmatch(term.strip())
        if found is None or not found[0]:
            return None
        if found[2]:
            strides[found[2]] = int(found[1] or 1)
        else:
            offset = int(found[1])
    loops: list[tuple[int, int]] = []
    for each in split(ranges.rstrip("}")):
        name, _, size = each.partition(": ")
        if not (size.isdecimal() and len(size) < 19):
            return None
        stride, count = strides.get(name, 0), int(size)
        if loops and loops[-1][0] == stride * count:
            loops[-1] = (stride, loops[-1][1] * count)
        elif count > 1:
            loops.append((stride, count))
    return offset, tuple(loops)


class _Block:
    """The lines of one node or member."""

    def __init__(self, name: str, kind: str, node: str) -> None:
        self.name, self.kind, self.node = name, kind, node
        self.fields: dict[str, list[str]] = {}
        self.layouts: dict[str, NamedTensor] = {}
        self.loop = ""

    def users(self, buffer: str) -> str:
        """The readers of a buffer; before torch 2.5 a node and its buffer had one name."""
        return self.field(f"{buffer}.users", *(["users"] if buffer == self.name else []))

    def field(self, *names: str) -> str:
        return "\n".join(line for name in names for line in self.fields.get(name, ()))


def _blocks(lines: Iterable[str]) -> Iterator[_Block]:
    block: _Block | None = None
    field: list[str] = []
    for line in lines:
        text = line.strip()
        if head := _HEAD.fullmatch(text):
            if block:
                yield block
            block, field = _Block(head[1], head[2], head[3]), []
        elif block is None:
            continue
        elif (layout := _LAYOUT.match(text)) and (tensor := _tensor(layout[1], layout[2])):
            block.layouts[layout[1]] = tensor
        elif (found := _FIELD.match(text)) and (
            found[1] == block.name or MEMBER.fullmatch(found[1])
        ):
            name = found[2] if found[1] == block.name else f"{found[1]}.{found[2]}"
            field = block.fields.setdefault(name, [])
            field.append(found[3].strip())
        elif text.startswith("class "):
            field = block.fields.setdefault("body", [])
        else:
            field.append(text)
    if block:
        yield block


def _node(blocks: list[_Block]) -> SchedulerNode:
    first = blocks[0]
    writes = _names(first.field("writes"))
    needs = first.field("unmet_dependencies", "met_dependencies")
    reads = [name for name in _names(needs) if name not in writes]
    layouts = {name: tensor for block in blocks for name, tensor in block.layouts.items()}
    kernel = first.field("node.kernel").strip().partition("\n")[0]
    return SchedulerNode(
        first.name,
        _kind(blocks),
        tuple(reads),
        tuple(writes),
        _iteration(blocks),
        tuple(_indices(first.field("writes", "unmet_dependencies", "met_dependencies"))),
        "" if kernel == "None" else kernel,
        tuple(layouts[name] for name in writes if name in layouts),
        operands=tuple(layouts[name] for name in reads if name in layouts),
        returned=tuple(
            name for name in writes if any("node=OUTPUT" in block.users(name) for block in blocks)
        ),
        mutates=tuple(
            found for name in writes for found in _QUOTED.findall(first.field(f"{name}.mutations"))
        ),
        waits=tuple(dict.fromkeys(_WEAK.findall(needs))),
    )


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(_DEPENDENCY.findall(text)))


def _indices(text: str) -> Iterator[tuple[str, str]]:
    """The index expressions with their ranges; a StarDep, a whole buffer, has none."""
    for part in text.split("MemoryDep(")[1:]:
        name, _, rest = part.partition("', ")
        end = rest.find("}")
        if end >= 0:
            yield name.strip("'"), " ".join(rest[: end + 1].split())


def _kind(blocks: list[_Block]) -> str:
    first = blocks[0]
    if first.kind in _KERNELS:
        return _KERNELS[first.kind]
    if any("Template" in block.node for block in blocks):
        return "template"
    if first.kind == "ExternKernelSchedulerNode":
        return "unpack" if first.node == "MultiOutput" else "extern"
    for word, kind in _LOOPS:
        if any(word in block.field("body") for block in blocks):
            return kind
    reduced = _iteration(blocks)[1:] or (1,)
    return "reduction" if reduced != (1,) else "pointwise"


def _iteration(blocks: list[_Block]) -> tuple[Size, ...]:
    """The largest loop of a node's members: its elements, and those each is reduced from."""
    found = [_counts(block.field("group.iteration").partition("\n")[0]) for block in blocks]
    known = [each for each in found if each]
    whole = [each for each in known if all(isinstance(size, int) for size in each)]
    if len(whole) < len(known) or not known:
        return known[0] if known else ()
    return max(whole, key=lambda each: (prod(int(size) for size in each), each[1:]))


def _counts(text: str) -> tuple[Size, ...]:
    """`(25165824, 1)`, or on a CPU each dimension, `((64, 64), ())`: two numbers."""
    parts = split(text.strip()[1:-1])
    return tuple(_multiplied(part) for part in parts) if len(parts) == 2 else ()


def _multiplied(part: str) -> Size:
    """A number, a symbol, or a tuple of them: `()` is 1."""
    inner = part[1:-1] if part.startswith("(") and part.endswith(")") else ""
    sizes = split(inner) if part == "()" or inner.endswith(",") or len(split(inner)) > 1 else [part]
    if all(_NUMBER.fullmatch(size) for size in sizes):
        return prod(int(size) for size in sizes)
    return "*".join(sizes)


def split(text: str) -> list[str]:
    """A text at its commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _tensor(name: str, layout: str) -> NamedTensor | None:
    found = _SIZES.match(layout)
    if found is None:
        return None
    dtype = SHORT_TYPES.get(found[2], found[2])
    return NamedTensor(name, dtype, _sizes(found[3]), _sizes(found[4]), found[1])


def _sizes(text: str) -> tuple[Size, ...]:
    return tuple(int(size) if _NUMBER.fullmatch(size) else size for size in split(text))


def fusion_lines(texts: Iterable[TextRecord]) -> Iterator[tuple[int, str]]:
    """The lines of the fusion log, each with the number of its scheduler; -1 before the first."""
    graph = -1
    for record in texts:
        for line in record.text.splitlines() if record.channel == "fusion" else ():
            graph += _FIRST_ROUND.match(line) is not None
            yield graph, line


def parse_choices(texts: Iterable[TextRecord]) -> tuple[FusionChoice, ...]:
    """Every pair of one compilation with Inductor's answer, in the order it was first given."""
    times: Counter[Pair] = Counter()
    for graph, line in fusion_lines(texts):
        if found := _answer(line):
            times[max(graph, 0), *found] += 1
    return tuple(FusionChoice(*pair[1:], times=n, graph=pair[0]) for pair, n in times.items())


def _answer(line: str) -> tuple[str, str, bool, str] | None:
    line = line.strip()
    if found := _REFUSED.match(line):
        return found[1], found[2], False, found[3]
    if found := _FUSED.fullmatch(line):
        return found[1], found[2], True, ""
    return _measured(line) if line.startswith(_SLOWER) else None


def _measured(line: str) -> tuple[str, str, bool, str]:
    """A pair that was slower as one kernel; this line names buffers, not nodes."""
    a, _, rest = _COLOUR.sub("", line.removeprefix(_SLOWER)).partition(" with ")
    b, _, words = rest.partition(" cause ")
    return "_".join(_QUOTED.findall(a)), "_".join(_QUOTED.findall(b)), False, f"benchmark: {words}"
