"""FX graphs as torch prints them: nodes, inputs and outputs, each node with its source line.

One node is one line, `mm: "bf16[8192, 3072][3072, 1]cuda:0" = torch.ops.aten.mm.default(a, b)`. A
comment `# File: model.py:27 in forward, code: …` holds for the nodes below it. A line that is not
understood is left out.
"""

from __future__ import annotations

import ast
import re

from foretrace.base.patterns import regex
from foretrace.model.compiled.syntax import dotted, parse
from foretrace.schema.compiler import FxGraph, GraphNode, NamedTensor, Size, SourceLine, Stage

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


def _sizes(text: str) -> tuple[Size, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.isdecimal() else part for part in parts)


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
            self._head(stripped)
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

    def _head(self, line: str) -> None:
        if line.startswith("def forward("):
            self.in_head = True
        if self.in_head:
            for name, text in _INPUT.findall(line[:_LONGEST]):
                self._input(name, text)
            self.in_body = line.partition("  #")[0].endswith("):")

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
                if before in self.inputs:
                    self._renamed(name, before)
            case [ast.Assign(targets=[ast.Name(id=name)], value=value), *_]:
                if not isinstance(value, ast.Constant):
                    self._node(name, value, None)

    def _renamed(self, name: str, before: str) -> None:
        """`l_x_ = L_x_`: nodes use the second name."""
        held = self.inputs.pop(before)
        self.inputs[name] = NamedTensor(name, held.dtype, held.shape, held.stride, held.device)
        self.known.add(name)

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
        opened = line.count("(") + line.count("[") - line.count(")") - line.count("]")
        self.open += opened
        self.in_return = self.open > 0
