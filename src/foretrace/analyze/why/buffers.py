"""The tensors that a wrapper names: its inputs, what it allocates, and views of both."""

from __future__ import annotations

import ast

from msgspec.structs import replace

from foretrace.analyze.why.parsed import dotted, number
from foretrace.schema.compiler import NamedTensor, Size

SHORT_TYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "bool": "b8", "complex64": "c64", "complex128": "c128",
    "complex32": "c32", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float": "f32", "double": "f64", "half": "f16", "long": "i64", "int": "i32",
}  # fmt: skip
_ALLOCATES = ("empty_strided", "rand_strided")


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
        self.same: dict[str, str] = {}  # a view or a reuse: the name that it had before
        self.types: dict[str, str] = {}  # what kernels say about names whose type is not written

    def assign(self, name: str, value: ast.expr) -> bool:
        """Learn what `name` is; False where the value is a call that this class does not know."""
        self.tensors.pop(name, None)
        self.scalars.pop(name, None)
        tensor = self.tensor(value)
        if tensor is not None:
            self.same |= {name: tensor.name} if tensor.name not in ("", name) else {}
            self.tensors[name] = replace(tensor, name=name)
            return True
        match value:
            case ast.Subscript(value=ast.Name(id=whole)):
                self.made_by[name] = whole
            case ast.Name(id=whole):
                self.made_by[name] = self.same[name] = whole
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
        if name.startswith(_ALLOCATES):
            return _allocated(node, name)
        if name in ("reinterpret_tensor", "_reinterpret_tensor") and len(node.args) >= 3:
            whole = self.tensor(node.args[0]) or NamedTensor(_name(node.args[0]))
            return replace(whole, shape=sizes(node.args[1]), stride=sizes(node.args[2]))
        if name == "alloc_from_pool" and len(node.args) == 5:
            shape, stride = sizes(node.args[3]), sizes(node.args[4])
            return NamedTensor("", short_type(node.args[2]), shape, stride)
        return None

    def learn(self, name: str, dtype: str) -> None:
        """A kernel's signature states the type of what it is given; views share it."""
        if dtype:
            self.types.setdefault(self._first(name), dtype)

    def type_of(self, name: str) -> str:
        """The type that some kernel stated; "" if none did."""
        return self.types.get(self._first(name), "")

    def _first(self, name: str) -> str:
        for _ in range(len(self.same)):
            if name not in self.same:
                break
            name = self.same[name]
        return name

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
    device = words.get("device")
    place = (
        str(device.value)
        if isinstance(device, ast.Constant)
        else name.removeprefix("empty_strided").strip("_")
    )
    return NamedTensor("", short_type(dtype), sizes(call.args[0]), sizes(call.args[1]), place)


def declared(module: ast.Module) -> dict[str, NamedTensor]:
    """The inputs with their types: `get_args`, once `benchmark_compiled_module`, makes such."""
    found: dict[str, NamedTensor] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function) as call):
                if dotted(function).rpartition(".")[2] == "rand_strided":
                    tensor = _allocated(call, "rand_strided")
                    if tensor is not None:
                        found[name] = replace(tensor, name=name)
    return found
