"""The wrapper that Inductor wrote: its tensors, its generated kernels, and its calls in order.

The text is parsed, never run. `call` allocates buffers, runs generated kernels (`….run(…)`) and
calls libraries (`extern_kernels.mm(…)`, `torch.ops.…`). Comments above a call name the nodes behind
it and its provenance handle. A wrapper in C++ (`cpp_wrapper`, AOTInductor) has the same calls, but
the sizes of its buffers are not read: what its library calls move is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.read.compiler.records import (
    SHORT_TYPES,
    Access,
    GeneratedKernel,
    KernelCall,
    NamedTensor,
    Size,
)
from foretrace.trace.compiled.accesses import (
    UNSIZED,
    base_op,
    counted,
    generated,
    library_accesses,
    read_triton,
    unsized,
)
from foretrace.trace.compiled.syntax import LARGEST, dotted, number, parse

HANDLE = "[Provenance debug handles] "
ORIGINS = "Topologically Sorted Source Nodes: ["
_LIBRARIES = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_BETWEEN = regex(r"\s*(?:#|stream\d{1,4} = |\w{1,1000}numel = |$)")  # comment and its call
_CALL = regex(r"(?:kernels\.)?call_(\w{1,500})\((.*)\);")
_LIBRARY = regex(r".{0,60}?\b(aoti_torch_(?:cuda|cpu|xpu|mps)_\w{1,200})\((.*)\)\);")
_LAUNCHES = "aoti_torch_cuda_", "aoti_torch_cpu_", "aoti_torch_xpu_", "aoti_torch_mps_"
_NUMBER = regex(r"(-?\d{1,19})L{0,2}")
_PATH = regex(r"# kernel path: (\S{1,1000})")
_CPP = ("cpp", "cpp_pybinding")


def short_type(node: ast.AST | None) -> str:
    """`bf16` for `torch.bfloat16`; a type without a short name keeps its own."""
    name = dotted(node).removeprefix("torch.") if node else ""
    return SHORT_TYPES.get(name, name)


def sizes(node: ast.AST | None) -> tuple[Size, ...]:
    """A tuple or list of sizes; a dynamic one stays text: `128*s77`."""
    if not isinstance(node, ast.Tuple | ast.List):
        return ()
    return tuple(_size(each) for each in node.elts)


def _size(node: ast.expr) -> Size:
    found = number(node)
    return ast.unparse(node).replace(" ", "") if found is None else found


class Buffers:
    """Names and their tensors, as the statements of a wrapper make them."""

    def __init__(self, inputs: dict[str, NamedTensor]) -> None:
        self.inputs = inputs
        self.tensors: dict[str, NamedTensor] = dict(inputs)
        self.made_by: dict[str, str] = {}  # a result or a part of it: the name that it had before
        self.scalars: dict[str, str] = {}

    def assign(self, name: str, value: ast.expr) -> bool:
        """Learn what `name` is; False where the value is a call that this class does not know."""
        self.tensors.pop(name, None)
        self.scalars.pop(name, None)
        tensor = self.tensor(value)
        if tensor is not None:
            self.tensors[name] = replace(tensor, name=name)
            return True
        match value:
            case ast.Subscript(value=ast.Name(id=whole)) | ast.Name(id=whole):
                self.made_by[name] = whole
            case ast.Constant() | ast.BinOp():
                self.scalars[name] = ast.unparse(value).replace(" ", "")
            case _:
                return False
        return True

    def tensor(self, node: ast.AST) -> NamedTensor | None:
        """The tensor that an expression names, allocates or views."""
        if isinstance(node, ast.Name):
            return self.tensors.get(node.id)
        if not isinstance(node, ast.Call):
            return None
        name = dotted(node.func).rpartition(".")[2]
        if name.startswith(("empty_strided", "rand_strided")):
            return _allocated(node, name)
        if name in ("reinterpret_tensor", "_reinterpret_tensor") and len(node.args) >= 3:
            whole = self.tensor(node.args[0]) or NamedTensor(_name(node.args[0]))
            begins = _size(node.args[3]) if len(node.args) > 3 else 0
            shape, stride = sizes(node.args[1]), sizes(node.args[2])
            return replace(whole, shape=shape, stride=stride, offset=begins)
        if name == "alloc_from_pool" and len(node.args) == 5:
            shape, stride = sizes(node.args[3]), sizes(node.args[4])
            return NamedTensor("", short_type(node.args[2]), shape, stride)
        return None

    def assert_sizes(self, call: ast.Call) -> None:
        """`assert_size_stride(buf1, (1024, ), (1, ))` states what a library returned."""
        if len(call.args) >= 3 and isinstance(call.args[0], ast.Name):
            name = call.args[0].id
            known = self.tensors.get(name) or NamedTensor(name)
            self.tensors[name] = replace(
                known, shape=sizes(call.args[1]), stride=sizes(call.args[2])
            )


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _allocated(call: ast.Call, name: str) -> NamedTensor | None:
    """`empty_strided_cuda(shape, stride, dtype)`, or with `device` and `dtype` as words."""
    if len(call.args) < 2:
        return None
    words = {word.arg: word.value for word in call.keywords}
    dtype = words.get("dtype", call.args[2] if len(call.args) > 2 else None)
    device, place = words.get("device"), name.removeprefix("empty_strided").strip("_")
    place = str(device.value) if isinstance(device, ast.Constant) else place
    return NamedTensor("", short_type(dtype), sizes(call.args[0]), sizes(call.args[1]), place)


def declared(module: ast.Module) -> dict[str, NamedTensor]:
    """The inputs with their types, as `get_args` or `benchmark_compiled_module` makes them."""
    found: dict[str, NamedTensor] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function) as call):
                made_by = dotted(function).rpartition(".")[2]
                if made_by == "rand_strided" and (tensor := _allocated(call, made_by)):
                    found[name] = replace(tensor, name=name)
    return found


def listed(text: str) -> tuple[str, ...]:
    """`linear, gelu]` as names."""
    return tuple(word for part in text.strip("[]").split(",") if (word := part.strip()))


class Walk:
    """Reads the statements that run a graph, and those of the partitions that they call."""

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
        self.found: list[KernelCall] = []
        self.results: dict[str, int] = {}  # a library's result, by name: the place of its call
        self.entered: set[str] = set()

    def calls(self) -> tuple[KernelCall, ...]:
        """All calls; empty where there is no `call`."""
        if "call" in self.functions:
            self._enter("call")
        return tuple(self.found)

    def _enter(self, name: str) -> None:
        if name not in self.entered:
            self.entered.add(name)
            self._statements(self.functions[name].body)

    def _statements(self, body: list[ast.stmt]) -> None:
        for each in body:
            match each:
                case ast.If(body=inner, orelse=last):
                    self._statements([*inner, *last])
                case ast.With() | ast.For() | ast.While() | ast.Try():
                    self._statements(each.body)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if not self.buffers.assign(name, value) and isinstance(value, ast.Call):
                        self._call(value, name)
                    # `buf1 = buf0[0]` is a result of the call that made `buf0`
                    whole = self.buffers.made_by.get(name, "")
                    if whole in self.results:
                        self.results[name] = self.results[whole]
                case ast.Assign(value=ast.Call() as call) | ast.Expr(value=ast.Call() as call):
                    self._call(call, "")

    def _call(self, call: ast.Call, result: str) -> None:
        name = dotted(call.func)
        inner = _partition(call) or name
        if name.endswith("assert_size_stride"):
            self._stated(call)
        elif (kernel := name.removesuffix(".run")) in self.kernels:
            texts = tuple(self._text(each) for each in call.args)
            tensors = [self.buffers.tensor(each) for each in call.args]
            accesses = _generated_accesses(self.kernels[kernel], texts, tensors)
            self.found.append(self._made(call, kernel, accesses, texts))
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
            stores = library_accesses(made.kernel, (), (tensor,), made.arguments)
            self.found[self.results[name]] = replace(made, accesses=kept + stores)

    def _text(self, node: ast.expr) -> str:
        text = ast.unparse(node).replace(" ", "")
        return self.buffers.scalars.get(text, text)

    def _library(self, call: ast.Call, name: str, args: list[ast.expr], result: str) -> None:
        out = [word.value for word in call.keywords if word.arg == "out"]
        rest = [word for word in call.keywords if word.arg != "out"]
        values = *args, *(word.value for word in rest)
        operands = [tensor for each in values for tensor in self._tensors(each)]
        results = [tensor for each in out for tensor in self._tensors(each)]
        texts = *map(self._text, args), *(f"{word.arg}={self._text(word.value)}" for word in rest)
        if not result and not results and not base_op(name).endswith("_"):
            results = operands  # a custom op without a result changes any of them
        found = library_accesses(name, operands, results, texts)
        if result:
            self.results[result] = len(self.found)
            made = library_accesses(name, (), (unsized(result),), texts)
            found = (*(access for access in found if access.mode == "load"), *made)
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
        told: dict[str, Any] = {}
        for line in reversed(self.lines[max(call.lineno - 8, 0) : call.lineno - 1]):
            if not _BETWEEN.match(line) or "origins" in told:
                break
            told |= _told(line.strip().removeprefix("# "))
        extern = name not in self.kernels
        return KernelCall(name, extern, accesses=found, arguments=texts, **told)


def _told(comment: str) -> dict[str, Any]:
    """What a comment above a call says of it: its handle, or its nodes and ops."""
    if comment.startswith(HANDLE):
        return {"handle": comment.removeprefix(HANDLE).strip()}
    if not comment.startswith(ORIGINS):
        return {}
    origins, _, ops = comment.removeprefix(ORIGINS).partition("], Original ATen: [")
    return {"origins": listed(origins), "ops": listed(ops)}


def _partition(call: ast.Call) -> str:
    """`partition_0` for `self.partitions[0](…)`."""
    match call.func:
        case ast.Subscript(value=held, slice=ast.Constant(value=int(place))):
            return f"partition_{place}" if dotted(held).endswith("partitions") else ""
    return ""


def _generated_accesses(
    kernel: GeneratedKernel, texts: Sequence[str], tensors: Sequence[NamedTensor | None]
) -> tuple[Access, ...]:
    """What a call of a generated kernel moves; its signature states the types."""
    code = generated(kernel.name, kernel.language, kernel.code)
    if code is None:
        return ()
    scalars, held = {}, {}
    for parameter, text, tensor in zip(code.parameters, texts, tensors, strict=False):
        if parameter in code.pointers:
            known = tensor or unsized(text)
            held[parameter] = replace(known, dtype=code.pointers[parameter] or known.dtype)
        if text.lstrip("-").isdecimal():
            scalars[parameter] = int(text)
    return counted(kernel, scalars, held)


def cpp_calls(code: str, kernels: Mapping[str, GeneratedKernel]) -> tuple[KernelCall, ...]:
    """The calls of libraries and of generated kernels in C++ text."""
    found: list[KernelCall] = []
    told: dict[str, Any] = {}
    for line in code.splitlines():
        text = line.strip()
        if text.startswith("//") and (said := _told(text.removeprefix("//").strip())):
            told |= said
        elif made := _call(text[:20_000], kernels):
            name, arguments, extern = made
            unknown = [None] * len(arguments)
            accesses = () if extern else _generated_accesses(kernels[name], arguments, unknown)
            found.append(KernelCall(name, extern, accesses=accesses, arguments=arguments, **told))
            told = {}
    return tuple(found)


def _call(
    text: str, kernels: Mapping[str, GeneratedKernel]
) -> tuple[str, tuple[str, ...], bool] | None:
    """(name, arguments, whether a library's) of a line that calls a kernel."""
    own = _CALL.fullmatch(text)
    if own and own[1] in kernels:
        return own[1], _arguments(own[2]), False
    library = _LIBRARY.fullmatch(text) if any(each in text for each in _LAUNCHES) else None
    return (library[1], _arguments(library[2]), True) if library else None


def _arguments(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    return tuple(found[1] if (found := _NUMBER.fullmatch(part)) else part for part in parts)


def parse_wrapper(code: str) -> tuple[tuple[GeneratedKernel, ...], tuple[KernelCall, ...]]:
    """The kernels and calls of one wrapper; empty where the text is not understood."""
    module = parse(code)
    try:
        if module is None:
            return (), cpp_calls(code[:LARGEST], {})
        own = _kernels(module, code.splitlines())
        kernels = own or _tuned(module)
        known = {kernel.name: kernel for kernel in kernels}
        walk = Walk(module, code.splitlines(), known, declared(module))
        return kernels, walk.calls() or cpp_calls(_cpp(module), known)
    except RecursionError:  # an expression nested deeper than any compiler writes
        return (), ()


def _tuned(module: ast.Module) -> tuple[GeneratedKernel, ...]:
    """A wrapper in C++ begins with the Python text that tuned its kernels."""
    text = ast.get_docstring(module, clean=False) or ""
    inner = parse(text.partition("\n\n")[2])
    return _kernels(inner, text.partition("\n\n")[2].splitlines()) if inner else ()


def _cpp(module: ast.Module) -> str:
    """`cpp_wrapper_src` of a module."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                if name.startswith("cpp_wrapper_src"):
                    return text
    return ""


def _kernels(module: ast.Module, lines: list[str]) -> tuple[GeneratedKernel, ...]:
    found = []
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function) as call):
                made_by, _, kind = dotted(function).rpartition(".")
                texts = [each for each in call.args if isinstance(each, ast.Constant)]
                codes = [each.value for each in texts if isinstance(each.value, str)]
                if made_by == "async_compile" and codes:
                    found.append(_kernel(name, kind, codes[-1], _file(lines, node.lineno)))
    return tuple(found)


def _kernel(name: str, kind: str, code: str, file: str) -> GeneratedKernel:
    if kind == "triton":
        read = read_triton(code, name)
        return GeneratedKernel(name, "triton", code, read.config if read else {}, file)
    return GeneratedKernel(name, "cpp" if kind in _CPP else "other", code, {}, file)


def _file(lines: list[str], line: int) -> str:
    """`# kernel path: …` above a kernel."""
    for text in reversed(lines[max(line - 4000, 0) : line - 1]):
        if not text.startswith("#"):
            break
        found = _PATH.match(text)
        if found:
            return found[1]
    return ""
