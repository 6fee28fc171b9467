"""The calls in a wrapper's `call`, in order, with the tensors that each reads and writes."""

from __future__ import annotations

import ast
import re

from msgspec.structs import replace

from foretrace.analyze.why import libraries
from foretrace.analyze.why.accesses import UNSIZED, unsized
from foretrace.analyze.why.buffers import Buffers
from foretrace.analyze.why.comments import HANDLE, ORIGINS, listed
from foretrace.analyze.why.generated import counted, generated
from foretrace.analyze.why.parsed import dotted
from foretrace.schema.compiler import Access, GeneratedKernel, KernelCall, NamedTensor

_LIBRARIES = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_BETWEEN = re.compile(r"\s*(?:#|stream\d{1,4} = |\w{1,1000}numel = |$)")  # comment and its call


class Walk:
    """Goes through the statements that run a graph; partitions are followed where called."""

    def __init__(
        self,
        module: ast.Module,
        lines: list[str],
        kernels: dict[str, GeneratedKernel],
        inputs: dict[str, NamedTensor],
    ) -> None:
        self.lines, self.kernels, self.buffers = lines, kernels, Buffers(inputs)
        self.functions = {
            each.name: each for each in ast.walk(module) if isinstance(each, _FUNCTIONS)
        }
        self.codes = {name: code for name in kernels if (code := generated(kernels[name]))}
        self.found: list[KernelCall] = []
        self.results: dict[str, int] = {}  # a library's result, by name: the place of its call
        self.entered: set[str] = set()

    def calls(self) -> tuple[KernelCall, ...]:
        """All calls; empty where there is no `call`."""
        if "call" in self.functions:
            self._enter("call")
        return tuple(self._typed(call) for call in self.found)

    def _typed(self, call: KernelCall) -> KernelCall:
        """What a library returned has a type once another kernel states it."""
        if not call.extern or all(access.tensor.dtype for access in call.accesses):
            return call
        tensors = [access.tensor for access in call.accesses]
        types = [tensor.dtype or self.buffers.type_of(tensor.name) for tensor in tensors]
        tensors = [replace(t, dtype=found) for t, found in zip(tensors, types, strict=True)]
        modes = [access.mode for access in call.accesses]
        return replace(call, accesses=libraries.again(call.kernel, tensors, modes))

    def _enter(self, name: str) -> None:
        if name not in self.entered:
            self.entered.add(name)
            self._statements(self.functions[name].body)

    def _statements(self, body: list[ast.stmt]) -> None:
        for each in body:
            match each:
                case ast.With(body=inner) | ast.For(body=inner) | ast.While(body=inner):
                    self._statements(inner)
                case ast.If(body=inner, orelse=last):
                    self._statements(inner)
                    self._statements(last)
                case ast.Try(body=inner):
                    self._statements(inner)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if not self.buffers.assign(name, value) and isinstance(value, ast.Call):
                        self._call(value, name)
                    self._part(name)
                case ast.Assign(value=ast.Call() as call) | ast.Expr(value=ast.Call() as call):
                    self._call(call, "")

    def _part(self, name: str) -> None:
        """`buf1 = buf0[0]` is a result of the call that made `buf0`."""
        whole = self.buffers.made_by.get(name, "")
        if whole in self.results:
            self.results[name] = self.results[whole]

    def _call(self, call: ast.Call, result: str) -> None:
        name = dotted(call.func)
        inner = _partition(call) or name
        if name.endswith("assert_size_stride"):
            self._stated(call)
        elif name.removesuffix(".run") in self.kernels:
            self._generated(call, name.removesuffix(".run"))
        elif name.startswith(_LIBRARIES):
            self._library(call, name, call.args, result)
        elif name.endswith(".copy_"):
            whole = ast.Name(name.removesuffix(".copy_"), ast.Load())
            self._library(call, "aten.copy_", [whole, *call.args], result)
        elif inner in self.functions and inner != "call":
            self._enter(inner)

    def _stated(self, call: ast.Call) -> None:
        """The sizes of what a library returned become known after its call."""
        self.buffers.assert_sizes(call)
        name = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else ""
        tensor = self.buffers.tensors.get(name)
        if name in self.results and tensor is not None:
            made = self.found[self.results[name]]
            known = (a for a in made.accesses if a.mode == "load" or a.tensor.shape != UNSIZED)
            kept = tuple(access for access in known if access.tensor.name != name)
            stores = libraries.accesses(made.kernel, (), (tensor,))
            self.found[self.results[name]] = replace(made, accesses=kept + stores)

    def _generated(self, call: ast.Call, name: str) -> None:
        texts = tuple(self._text(each) for each in call.args)
        tensors = [self.buffers.tensor(each) for each in call.args]
        found: tuple[Access, ...] = ()
        if name in self.codes:
            found = self._touched(name, texts, tensors)
        self.found.append(self._made(call, name, found, texts))

    def _touched(
        self, name: str, texts: tuple[str, ...], tensors: list[NamedTensor | None]
    ) -> tuple[Access, ...]:
        code = self.codes[name]
        held = {}
        for parameter, text, tensor in zip(code.parameters, texts, tensors, strict=False):
            if parameter in code.pointers:
                known = tensor or unsized(text)
                held[parameter] = replace(known, dtype=code.pointers[parameter] or known.dtype)
                self.buffers.learn(known.name, code.pointers[parameter])
        return counted(self.kernels[name], _scalars(code.parameters, texts), held)

    def _text(self, node: ast.expr) -> str:
        text = ast.unparse(node).replace(" ", "")
        return self.buffers.scalars.get(text, text)

    def _library(self, call: ast.Call, name: str, args: list[ast.expr], result: str) -> None:
        out = [word.value for word in call.keywords if word.arg == "out"]
        rest = [word.value for word in call.keywords if word.arg != "out"]
        operands = [tensor for each in (*args, *rest) for tensor in self._tensors(each)]
        results = [tensor for each in out for tensor in self._tensors(each)]
        for tensor in libraries.same_type(name, [*operands, *results]):
            self.buffers.learn(tensor.name, tensor.dtype)
        found = libraries.accesses(name, operands, results)
        if result:
            self.results[result] = len(self.found)
            made = libraries.accesses(name, (), (unsized(result),))
            found = (*(access for access in found if access.mode == "load"), *made)
        texts = tuple(self._text(each) for each in args)
        self.found.append(self._made(call, name, found, texts))

    def _tensors(self, node: ast.expr) -> list[NamedTensor]:
        if isinstance(node, ast.List | ast.Tuple):
            return [tensor for each in node.elts for tensor in self._tensors(each)]
        tensor = self.buffers.tensor(node)
        return [] if tensor is None else [tensor]

    def _made(
        self, call: ast.Call, name: str, found: tuple[Access, ...], texts: tuple[str, ...]
    ) -> KernelCall:
        """The call with what the comments above it say."""
        handle, origins, ops = "", "", ""
        for line in reversed(self.lines[max(call.lineno - 8, 0) : call.lineno - 1]):
            if not _BETWEEN.match(line):
                break
            text = line.strip().removeprefix("# ")
            if text.startswith(HANDLE):
                handle = text.removeprefix(HANDLE).strip()
            elif text.startswith(ORIGINS):
                origins, _, ops = text.removeprefix(ORIGINS).partition("], Original ATen: [")
                break
        extern = name not in self.kernels
        return KernelCall(
            name, extern, handle, accesses=found, arguments=texts,
            origins=listed(origins), ops=listed(ops),
        )  # fmt: skip


def _partition(call: ast.Call) -> str:
    """`partition_0` for `self.partitions[0](…)`."""
    match call.func:
        case ast.Subscript(value=held, slice=ast.Constant(value=int(place))):
            return f"partition_{place}" if dotted(held).endswith("partitions") else ""
    return ""


def _scalars(parameters: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, int]:
    pairs = zip(parameters, texts, strict=False)
    return {name: int(text) for name, text in pairs if text.lstrip("-").isdecimal()}
