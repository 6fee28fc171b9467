"""What a generated Triton kernel loads and stores, from its text alone.

The code is parsed and never run. `xindex` and its kin are variables that run over all of `xnumel`;
what follows from them and from whole numbers is an index. All else (loaded values, floats, program
ids) is not known, and neither is an index or a mask that uses it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from math import prod

from msgspec import Struct

from foretrace.why.index_forms import Index, Root, operation
from foretrace.why.parsed import dotted, number, parse
from foretrace.why.touches import Touch

_ROOT = re.compile(r"(?:[xyz]|r\d{0,3}_?)index")
_TYPES = {
    "fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32",
    "i16": "i16", "i8": "i8", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "i1": "b8",
    "u1": "b8", "fp8e4nv": "f8", "fp8e5": "f8", "fp8e4b8": "f8", "fp8e5b16": "f8",
}  # fmt: skip
_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_HELPERS = {
    "div_floor_integer": "//", "remainder_integer": "%", "minimum": "min", "maximum": "max",
    "where": "where",
}  # fmt: skip
_ACCESSES = {"tl.load": "load", "tl.store": "store"}


class TritonCode(Struct, frozen=True):
    """A kernel's function, its pointers (`in_ptr0: bf16`) and its fixed options (`R0_BLOCK`)."""

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    config: dict[str, int]
    function: ast.FunctionDef


def read(code: str, name: str = "") -> TritonCode | None:
    """The kernel in a text; helper functions precede it. None if there is none."""
    module = parse(code)
    functions = (
        [each for each in module.body if isinstance(each, ast.FunctionDef)] if module else []
    )
    named = [each for each in functions if each.name == name] or functions[-1:]
    if not named:
        return None
    arguments = named[0].args
    parameters = tuple(each.arg for each in (*arguments.args, *arguments.kwonlyargs))
    decorators = [each for each in named[0].decorator_list if isinstance(each, ast.Call)]
    given = {word.arg or "": word.value for call in decorators for word in call.keywords}
    return TritonCode(
        parameters, _pointers(given.get("triton_meta"), parameters), _config(named[0], given),
        named[0],
    )  # fmt: skip


def _pointers(meta: ast.expr | None, parameters: tuple[str, ...]) -> dict[str, str]:
    """The short type of every pointer, by the signature that Inductor writes above the kernel."""
    signature = _entry(meta, "signature")
    if not isinstance(signature, ast.Dict):
        return {}
    found = {}
    for key, value in zip(signature.keys, signature.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(value, ast.Constant):
            continue
        at = key.value  # before torch 2.6 the place of the parameter
        name = parameters[at] if isinstance(at, int) and at < len(parameters) else str(at)
        if str(value.value).startswith("*"):
            found[name] = _TYPES.get(str(value.value)[1:], "")
    return found


def _entry(mapping: ast.expr | None, name: str) -> ast.expr | None:
    if isinstance(mapping, ast.Dict):
        for key, value in zip(mapping.keys, mapping.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    return None


def _config(function: ast.FunctionDef, given: Mapping[str, ast.expr]) -> dict[str, int]:
    """Options that the text fixes: `num_warps=4` above, `R0_BLOCK: tl.constexpr = 1024` in it."""
    found = {name: number(given.get(name)) for name in ("num_warps", "num_stages")}
    for each in function.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value:
            found[each.target.id] = number(each.value)
    return {name: value for name, value in found.items() if value is not None}


def touches(code: TritonCode, scalars: Mapping[str, int]) -> list[Touch]:
    """Every load, store and atomic operation, in order; `scalars` are whole-number arguments."""
    reader = _Reader(code, scalars)
    reader.statements(code.function.body)
    return reader.found


class _Reader:
    """Goes through the statements once: every loop and every branch runs for some program."""

    def __init__(self, code: TritonCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {*code.pointers} or {p for p in code.parameters if "ptr" in p}
        self.known: dict[str, Index | None] = dict(scalars)
        self.behind: dict[str, frozenset[Root] | None] = {}  # what values vary with, if known
        self.found: list[Touch] = []

    def statements(self, body: list[ast.stmt]) -> None:
        for each in body:
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._assign(name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._assign(name, value)
                case ast.For(target=target, iter=over, body=inner, orelse=last):
                    self._touch(over)
                    self._forget([target, *inner])
                    self.statements([*inner, *last])
                case (
                    ast.If(test=test, body=inner, orelse=last)
                    | ast.While(test=test, body=inner, orelse=last)
                ):
                    self._touch(test)
                    self._forget(inner if isinstance(each, ast.While) else [])
                    self.statements(inner)
                    self.statements(last)
                case _:
                    self._touch(each)
                    self._forget([each])

    def _forget(self, body: Sequence[ast.AST]) -> None:
        """What a loop changes has no one value in it."""
        for each in body:
            for node in ast.walk(each):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.known[node.id] = self.behind[node.id] = None

    def _assign(self, name: str, value: ast.expr) -> None:
        self._touch(value)
        if _ROOT.fullmatch(name) and _runs(value):
            size = self.known.get(f"{name.removesuffix('index')}numel")
            root = Root(name, size) if isinstance(size, int) and size > 0 else None
            self.known[name], self.behind[name] = root, frozenset({root}) if root else None
        else:
            self.known[name], self.behind[name] = self.value(value), self._roots(value)

    def _roots(self, node: ast.expr) -> frozenset[Root] | None:
        """The variables that a value depends on, loaded ones included; None if not known."""
        found: frozenset[Root] = frozenset()
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and each.attr in ("program_id", "arange"):
                return None
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                behind = self.behind.get(each.id, frozenset())
                if behind is None:
                    return None
                found |= behind
        return found

    def value(self, node: ast.expr) -> Index | None:
        """The index that an expression is; None if it is not known."""
        match node:
            case ast.Constant(value=int(whole)):
                return int(whole)
            case ast.Name(id=name):
                return self.known.get(name)
            case ast.BinOp(left=left, op=kind, right=right):
                return operation(_BINARY.get(type(kind), "?"), self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[kind], comparators=[right]):
                return operation(_BINARY.get(type(kind), "?"), self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return operation("-", 0, self.value(inner))
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inner):
                return operation("~", self.value(inner))
            case ast.Subscript(value=inner):
                return self.value(inner)
            case ast.Call():
                return self._call(node)
        return None

    def _call(self, node: ast.Call) -> Index | None:
        name = dotted(node.func)
        match name.rpartition("."):
            case "tl", _, "full":
                return self.value(node.args[1]) if len(node.args) > 1 else None
            case _, _, "broadcast_to" if name == "tl.broadcast_to" and node.args:
                return self.value(node.args[0])
            case (("tl" | "triton_helpers"), _, helper) if helper in _HELPERS:
                return operation(_HELPERS[helper], *map(self.value, node.args))
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("broadcast_to", "to"):
            whole = node.func.attr != "to" or _is_whole(node)
            return self.value(node.func.value) if whole else None
        return None

    def _touch(self, node: ast.AST) -> None:
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            name = dotted(call.func)
            mode = "atomic" if name.startswith("tl.atomic_") else _ACCESSES.get(name)
            if mode and call.args:
                self._access(call, mode)

    def _access(self, call: ast.Call, mode: str) -> None:
        pointer = call.args[0]
        names = [each.id for each in ast.walk(pointer) if isinstance(each, ast.Name)]
        held = [name for name in names if name in self.pointers]
        if len(held) != 1:
            return
        words = {word.arg: word.value for word in call.keywords}
        place = {"load": 1, "store": 2, "atomic": 2}[mode]
        mask = words.get("mask", call.args[place] if len(call.args) > place else None)
        nothing = mask is None or (isinstance(mask, ast.Constant) and mask.value is None)
        text, index = self._index(pointer, held[0])
        held_by = 1 if nothing or mask is None else self.value(mask)
        behind = self._roots(pointer)
        most = None if behind is None else prod(root.size for root in behind)
        self.found.append(Touch(held[0], mode, text, index, held_by, most))

    def _index(self, pointer: ast.expr, name: str) -> tuple[str, Index | None]:
        """What is added to the pointer."""
        if isinstance(pointer, ast.Name):
            return "0", 0
        match pointer:
            case ast.BinOp(left=ast.Name(id=found), op=ast.Add(), right=index) if found == name:
                return ast.unparse(index), self.value(index)
        return ast.unparse(pointer), None


def _runs(value: ast.expr) -> bool:
    """Whether this is an index over all programs and blocks, and not made of other indices."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    runs = any(each.endswith(("offset", "base")) for each in names)
    return runs or any(isinstance(n, ast.Attribute) and n.attr == "arange" for n in ast.walk(value))


def _is_whole(node: ast.Call) -> bool:
    return bool(node.args) and dotted(node.args[0]).startswith(("tl.int", "tl.uint"))
