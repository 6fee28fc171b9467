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

from foretrace.model.compiled.accesses import Touch, unseen
from foretrace.model.compiled.indices import Index, Root, index_of, operation
from foretrace.model.compiled.syntax import dotted, number, parse

_ROOT = re.compile(r"(?:[xyz]|r\d{0,3}_?)index")
_TYPES = {
    "fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32",
    "i16": "i16", "i8": "i8", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "i1": "b8",
    "u1": "b8", "fp8e4nv": "f8e4m3fn", "fp8e5": "f8e5m2", "fp8e4b8": "f8e4m3fnuz",
    "fp8e5b16": "f8e5m2fnuz",
}  # fmt: skip
_BLOCKS = ("tl.make_block_ptr", "tl.make_tensor_descriptor")


class TritonCode(Struct, frozen=True):
    """A kernel's function, its pointers (`in_ptr0: bf16`) and its fixed options (`R0_BLOCK`)."""

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    config: dict[str, int]
    mutated: tuple[str, ...]
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
    pointers = _pointers(given.get("triton_meta"), parameters)
    mutated = _listed(_entry(given.get("inductor_meta"), "mutated_arg_names"))
    names = tuple(str(each.value) for each in mutated if isinstance(each, ast.Constant))
    return TritonCode(parameters, pointers, _config(named[0], given), names, named[0])


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
    seen = {touch.argument for touch in reader.found}
    rest = (pointer for pointer in code.pointers if pointer not in seen)
    return [*reader.found, *(each for p in rest for each in unseen(p, p in code.mutated))]


class _Reader:
    """Goes through the statements once: every loop and every branch runs for some program."""

    def __init__(self, code: TritonCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {name: name for name in code.pointers}  # and other names for them
        self.blocks: dict[str, ast.Call] = {}  # block pointers and tensor descriptors
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
                case ast.While(test=test, body=inner, orelse=last):
                    self._touch(test)
                    self._forget(inner)
                    self.statements([*inner, *last])
                case ast.If(test=test, body=inner, orelse=last):
                    self._touch(test)
                    self.statements([*inner, *last])
                case _:
                    self._touch(each)
                    self._forget([each])

    def _forget(self, body: Sequence[ast.AST]) -> None:
        """What a loop changes has no one value in it; `xindex += XBLOCK` still runs over all."""
        nodes = [node for each in body for node in ast.walk(each)]
        kept = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign) and _on(node)}
        for node in nodes:
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            if isinstance(node, ast.Name) and stored and id(node) not in kept:
                self.known[node.id] = self.behind[node.id] = None

    def _assign(self, name: str, value: ast.expr) -> None:
        self._touch(value)
        if isinstance(value, ast.Name) and value.id in self.pointers:
            self.pointers[name] = self.pointers[value.id]
        elif isinstance(value, ast.Call) and dotted(value.func) in _BLOCKS:
            self.blocks[name] = value
        elif _ROOT.fullmatch(name) and _runs(value):
            size = self.known.get(f"{name.removesuffix('index')}numel")
            root = Root(name, size) if isinstance(size, int) and size > 0 else None
            self.known[name], self.behind[name] = root, frozenset({root}) if root else None
        else:
            self.known[name], self.behind[name] = index_of(value, self.known), self._roots(value)

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

    def _touch(self, node: ast.AST) -> None:
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            holder, _, method = dotted(call.func).rpartition(".")
            if holder in self.blocks and method in ("load", "store"):
                self._block(self.blocks[holder], method)
            elif holder == "tl" and call.args:
                kind, _, _ = method.partition("_")
                mode = {"load": "load", "store": "store", "atomic": "atomic"}.get(kind)
                if mode:
                    self._access(call, mode)

    def _access(self, call: ast.Call, mode: str) -> None:
        pointer = call.args[0]
        made = self.blocks.get(pointer.id) if isinstance(pointer, ast.Name) else None
        if isinstance(pointer, ast.Call) and dotted(pointer.func) in _BLOCKS:
            made = pointer
        if made is not None:
            self._block(made, mode)
            return
        words = {word.arg: word.value for word in call.keywords}
        place = {"load": 1, "store": 2, "atomic": 2}[mode]
        mask = words.get("mask", call.args[place] if len(call.args) > place else None)
        free = mask is None or (isinstance(mask, ast.Constant) and mask.value is None)
        holds = 1 if free or mask is None else index_of(mask, self.known)
        behind = self._roots(pointer)
        most = None if behind is None else prod(root.size for root in behind)
        for name in self._held(pointer):
            text, index = self._index(pointer)
            self.found.append(Touch(self.pointers[name], mode, text, index, holds, most))

    def _held(self, node: ast.expr) -> list[str]:
        """The pointers in an expression; two of them are both touched, nobody knows where."""
        names = dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        return [name for name in names if name in self.pointers]

    def _index(self, pointer: ast.expr) -> tuple[str, Index | None]:
        """What is added to the pointer."""
        match pointer:
            case ast.Name():
                return "0", 0
            case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=index):
                if name in self.pointers and not self._held(index):
                    return ast.unparse(index), index_of(index, self.known)
        return ast.unparse(pointer), None

    def _block(self, made: ast.Call, mode: str) -> None:
        """All of what a block pointer or a descriptor describes: its blocks cover it."""
        words = {word.arg: word.value for word in made.keywords}
        shape, strides = (_listed(words.get(name)) for name in ("shape", "strides"))
        index: Index | None = 0 if shape and len(shape) == len(strides) else None
        for at, (size, stride) in enumerate(zip(shape, strides, strict=False)):
            extent = index_of(size, self.known)
            root = Root(f"d{at}", extent) if isinstance(extent, int) and extent > 0 else None
            step = operation("*", root, index_of(stride, self.known))
            index = operation("+", index, step)
        whole = made.args and isinstance(made.args[0], ast.Name)
        for name in self._held(made):
            text = ast.unparse(ast.Tuple([*shape, *strides], ast.Load()))
            self.found.append(Touch(self.pointers[name], mode, text, index if whole else None))


def _listed(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


def _on(node: ast.AugAssign) -> bool:
    """`xindex += XBLOCK`."""
    target = node.target.id if isinstance(node.target, ast.Name) else ""
    step = node.value.id if isinstance(node.value, ast.Name) else ""
    return _ROOT.fullmatch(target) is not None and step.endswith("BLOCK")


def _runs(value: ast.expr) -> bool:
    """Whether this is an index over all programs and blocks, and not made of other indices."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    runs = any(each.endswith(("offset", "base")) for each in names)
    return runs or any(isinstance(n, ast.Attribute) and n.attr == "arange" for n in ast.walk(value))
