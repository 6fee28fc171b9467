"""What a generated Triton or C++ kernel loads and stores, from its text alone.

The code is parsed and never run. In Triton, `xindex`, `yindex` and `r0_index` are variables that
run over all of `xnumel`. An index is computed from these and from whole numbers. An index or a mask
that uses anything else (loaded values, floats, program ids) is not known.

In C++, loops such as `for(int64_t x0=…(0L); x0<…(50L); x0+=…(4L))` are variables. A vector load in
a loop with steps of 4 reads the elements that the loop steps over. Its tail reads the last of them.
The variable counts them once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.model.compiled.accesses import Touch, accesses, template, unseen, with_tensors
from foretrace.model.compiled.indices import (
    Form,
    Mask,
    Root,
    Value,
    added,
    index_of,
    mask_of,
    value_of,
    variable,
)
from foretrace.model.compiled.syntax import dotted, evaluate, expression, number, parse
from foretrace.schema.compiler import Access, GeneratedKernel, KernelCall, Mode, NamedTensor, Size

_ROOT = regex(r"(?:[xyz]|r\d{0,3}_?)index")
_TRITON_TYPES = {
    "fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32",
    "i16": "i16", "i8": "i8", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "i1": "b8",
    "u1": "b8", "fp8e4nv": "f8e4m3fn", "fp8e5": "f8e5m2", "fp8e4b8": "f8e4m3fnuz",
    "fp8e5b16": "f8e5m2fnuz",
}  # fmt: skip
_MODES: dict[str, Mode] = {"load": "load", "store": "store", "atomic": "atomic"}
_BLOCKS = ("tl.make_block_ptr", "tl.make_tensor_descriptor")
_CPP_TYPES = {
    "float": "f32", "double": "f64", "bfloat16": "bf16", "half": "f16", "at::BFloat16": "bf16",
    "at::Half": "f16", "int64_t": "i64", "int32_t": "i32", "int16_t": "i16", "int8_t": "i8",
    "uint8_t": "u8", "bool": "b8", "long": "i64", "int": "i32", "c10::BFloat16": "bf16",
    "c10::Half": "f16", "unsigned char": "u8", "signed char": "i8", "short": "i16",
    "uint32_t": "u32", "uint64_t": "u64", "uint16_t": "u16",
}  # fmt: skip
_PARAMETER = regex(r"(?:const )?([\w:]{1,60}(?: char)?) ?(\*?) ?(?:__restrict__ )?(\w{1,200})")
_ALIAS = regex(r"auto (\w{1,200}) = (\w{1,200});")
_WORD = regex(r"\w+")
_NUMBER = regex(r"\b(\d{1,19})L{0,2}\b")
_CAST = regex(r"(?:static_cast|c10::convert)<(?:int64_t|long|int32_t|int)>")
_LONGEST = 5000  # characters of an index
_VECTOR = ("loadu(", ".store(", "transpose_mxn<")


class TritonCode(Struct, frozen=True):
    """A kernel's function, its pointers (`in_ptr0: bf16`) and its fixed options (`R0_BLOCK`)."""

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    config: dict[str, int]
    mutated: tuple[str, ...]
    function: ast.FunctionDef


def read_triton(code: str, name: str = "") -> TritonCode | None:
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
            found[name] = _TRITON_TYPES.get(str(value.value)[1:], "")
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


def triton_touches(code: TritonCode, scalars: Mapping[str, int]) -> list[Touch]:
    """Every load, store and atomic operation, in order; `scalars` are whole-number arguments."""
    reader = _Reader(code, scalars)
    reader.statements(code.function.body)
    seen = {touch.argument for touch in reader.found}
    rest = (pointer for pointer in code.pointers if pointer not in seen)
    return [*reader.found, *(each for p in rest for each in unseen(p, p in code.mutated))]


class _Reader:
    """Reads the statements once: every loop and every branch runs for some program."""

    def __init__(self, code: TritonCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {name: name for name in code.pointers}  # and other names for them
        self.blocks: dict[str, ast.Call] = {}  # block pointers and tensor descriptors
        self.known: dict[str, Value | None] = {name: Form(n) for name, n in scalars.items()}
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
        """Mark what a loop changes as not known; `xindex += XBLOCK` keeps the variable."""
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
            self._variable(name)
        else:
            self.known[name], self.behind[name] = value_of(value, self.known), self._behind(value)

    def _variable(self, name: str) -> None:
        size = _constant(self.known.get(f"{name.removesuffix('index')}numel"))
        self.known[name] = self.behind[name] = None
        if size > 0:
            self.known[name], self.behind[name] = (
                variable(name, size),
                frozenset({Root(name, size)}),
            )

    def _behind(self, node: ast.expr) -> frozenset[Root] | None:
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
            mode = _MODES.get(method.partition("_")[0])
            if mode is None:
                continue
            if holder in self.blocks:
                self._block(self.blocks[holder], mode)
            elif holder == "tl" and call.args:
                self._access(call, mode)

    def _access(self, call: ast.Call, mode: Mode) -> None:
        pointer = call.args[0]
        made = self.blocks.get(pointer.id) if isinstance(pointer, ast.Name) else None
        if isinstance(pointer, ast.Call) and dotted(pointer.func) in _BLOCKS:
            made = pointer
        if made is not None:
            self._block(made, mode)
            return
        words = {word.arg: word.value for word in call.keywords}
        place = 1 if mode == "load" else 2
        mask = words.get("mask", call.args[place] if len(call.args) > place else None)
        free = mask is None or (isinstance(mask, ast.Constant) and mask.value is None)
        holds = Mask() if free or mask is None else mask_of(mask, self.known)
        behind = self._behind(pointer)
        most = None if behind is None else prod(root.size for root in behind)
        for name in self._held(pointer):
            text, index = self._index(pointer)
            self.found.append(Touch(self.pointers[name], mode, text, index, holds, most))

    def _held(self, node: ast.expr) -> list[str]:
        """The pointers in an expression. Where it has two, the index of both is not known."""
        names = dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        return [name for name in names if name in self.pointers]

    def _index(self, pointer: ast.expr) -> tuple[str, Form | None]:
        """What is added to the pointer."""
        match pointer:
            case ast.Name():
                return "0", Form(0)
            case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=index):
                if name in self.pointers and not self._held(index):
                    return ast.unparse(index), index_of(index, self.known)
        return ast.unparse(pointer), None

    def _block(self, made: ast.Call, mode: Mode) -> None:
        """All of what a block pointer or a descriptor describes: its blocks cover it."""
        words = {word.arg: word.value for word in made.keywords}
        shape, strides = (_listed(words.get(name)) for name in ("shape", "strides"))
        index: Form | None = Form(0) if shape and len(shape) == len(strides) else None
        for at, (size, stride) in enumerate(zip(shape, strides, strict=False)):
            extent, step = (_constant(index_of(each, self.known)) for each in (size, stride))
            known = index is not None and extent > 0 and step >= 0
            index = added(index, variable(f"d{at}", extent, step)) if known and index else None
        whole = made.args and isinstance(made.args[0], ast.Name)
        for name in self._held(made):
            text = ast.unparse(ast.Tuple([*shape, *strides], ast.Load()))
            self.found.append(Touch(self.pointers[name], mode, text, index if whole else None))


def _constant(value: Value | None) -> int:
    """The number that a value is; -1 if it is not one."""
    return value.constant if isinstance(value, Form) and not value.terms else -1


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


class CppCode(Struct, frozen=True):
    """The parameters of a kernel, the short types of its pointers, and its lines."""

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    lines: tuple[str, ...]


class _Loop(Struct, frozen=True):
    name: str
    value: Form | None
    depth: int
    step: int = 1


def read_cpp(code: str) -> CppCode | None:
    """The kernel in a text: the last function that C can call. None if there is none."""
    _, found, rest = code.rpartition('extern "C"')
    head, _, body = rest.partition("{")
    inside = head[head.find("(") + 1 : head.rfind(")")] if "(" in head else ""
    given = [_PARAMETER.fullmatch(" ".join(part.split())) for part in inside.split(",")]
    known = [each for each in given if each]
    if not found or len(known) < len(given):
        return None
    pointers = {each[3]: _CPP_TYPES.get(each[1], "") for each in known if each[2]}
    return CppCode(tuple(each[3] for each in known), pointers, tuple(body.splitlines()))


def cpp_touches(code: CppCode, scalars: Mapping[str, int]) -> list[Touch]:
    """Every load and store, in order; `scalars` are whole-number arguments."""
    reader = _CppReader(code, scalars)
    for line in code.lines:
        reader.take(line)
    seen = {touch.argument for touch in reader.found}
    return [*reader.found, *(each for p in code.pointers if p not in seen for each in unseen(p))]


class _CppReader:
    def __init__(self, code: CppCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {name: name for name in code.pointers}
        self.scalars = scalars
        self.loops: list[_Loop] = []
        self.depth = 0
        self.conditional: int | None = None  # the depth of a function that a mask calls
        self.found: list[Touch] = []

    def take(self, line: str) -> None:
        """One line: a loop, another name for a pointer, or a statement."""
        text = line.strip()
        alias = _ALIAS.fullmatch(text)
        if alias and alias[2] in self.pointers:
            self.pointers[alias[1]] = self.pointers[alias[2]]
        elif text.startswith(("for(", "for (")):
            self.loops.append(self._loop(text))
        elif any(word in self.pointers for word in _WORD.findall(text)):
            self._statement(text)
        if "[&]" in text and self.conditional is None:
            self.conditional = self.depth
        self.depth += text.count("{") - text.count("}")
        if "}" in text:
            self.loops = [loop for loop in self.loops if loop.depth < self.depth]
            if self.conditional is not None and self.depth <= self.conditional:
                self.conditional = None

    def _loop(self, text: str) -> _Loop:
        """A loop as a variable; the inner loop of a vector repeats its lanes."""
        first, _, rest = text[text.find("(") + 1 :].partition(";")
        test, _, step = rest.partition(";")
        name, _, start = first.partition("=")
        name = name.split()[-1] if name.split() else ""
        if name.endswith("_inner"):
            return _Loop(name, Form(0), self.depth)
        low, high = self._index(start), self._index(test.partition("<")[2])
        more = self._index(step.partition("=")[2].strip().removesuffix(")"))
        by = 1 if "++" in step else max(_constant(more), 0)
        size = _constant(added(high, low, -1)) if low and high else -1
        value = added(low, variable(f"{name}.{self.depth}", size)) if low and size > 0 else None
        return _Loop(name, value, self.depth, by)

    def _index(self, text: str) -> Form | None:
        known: dict[str, Value | None] = {name: Form(n) for name, n in self.scalars.items()}
        known |= {loop.name: loop.value for loop in self.loops}
        node = expression(_python(text)) if len(text) <= _LONGEST else None
        return None if node is None else index_of(node, known)

    def _statement(self, text: str) -> None:
        for name, mode, inside, vector in _places(text, self.pointers):
            index = None if inside is None else self._index(inside)
            index = index if not vector or self._is_run(index) else None
            # one element for each iteration; a vector or a call may reach more
            most = None if vector or inside is None else self._most()
            masked = self.conditional is not None or ".template" in text
            mask = None if masked else Mask()
            shown = "" if inside is None else _python(inside)
            self.found.append(Touch(self.pointers[name], mode, shown, index, mask, most))

    def _most(self) -> int | None:
        """The most elements that the loops around a statement allow."""
        sizes = [loop.value.high - loop.value.low + 1 for loop in self.loops if loop.value]
        return prod(sizes) if len(sizes) == len(self.loops) else None

    def _is_run(self, index: Form | None) -> bool:
        """Whether a vector load reads what its loop steps over: the variable has the factor 1."""
        stepping = [loop for loop in self.loops if loop.step != 1]
        if index is None or not stepping:
            return False
        names = {f"{loop.name}.{loop.depth}" for loop in stepping}
        return any(d[0].name in names and c == 1 and d[1] == 1 for d, c in index.terms.items())


def _places(text: str, pointers: Mapping[str, str]) -> Iterator[tuple[str, Mode, str | None, bool]]:
    """(pointer, mode, index or None, whether a vector) for every pointer in a statement."""
    for found in _WORD.finditer(text):
        if found[0] not in pointers:
            continue
        before, after = text[: found.start()], text[found.end() :].lstrip()
        store = before.rstrip().endswith(".store(")
        atomic = "atomic_add" in before
        if after.startswith("["):
            inside = _balanced(after, "[", "]")
            rest = after[len(inside) + 2 :].lstrip()
            written = rest.startswith("=") and not rest.startswith("==")
            yield found[0], _mode(atomic, written or store), inside, False
        elif after.startswith("+ ") and any(each in before for each in _VECTOR) and not atomic:
            yield found[0], _mode(False, store), _argument(after[2:]), True
        else:
            yield found[0], _mode(atomic, store), None, False


def _mode(atomic: bool, written: bool) -> Mode:
    return "atomic" if atomic else "store" if written else "load"


def _balanced(text: str, opening: str, closing: str) -> str:
    """What stands between the first bracket and the one that closes it."""
    depth = 0
    for at, letter in enumerate(text[:_LONGEST]):
        depth += (letter == opening) - (letter == closing)
        if depth == 0:
            return text[1:at]
    return ""


def _argument(text: str) -> str:
    """An argument up to the comma or bracket that ends it."""
    depth = 0
    for at, letter in enumerate(text[:_LONGEST]):
        if depth == 0 and letter in ",)":
            return text[:at]
        depth += (letter in "([") - (letter in ")]")
    return ""


def _python(text: str) -> str:
    """A C++ expression of whole numbers as Python would write it; `/` divides whole numbers."""
    plain = _NUMBER.sub(r"\1", _CAST.sub("", text)).replace("::", ".").replace("/", "//")
    return plain.replace("&&", "&").strip()


GeneratedCode = TritonCode | CppCode


def generated(kernel: GeneratedKernel) -> GeneratedCode | None:
    """The code of a kernel; None where it is not understood."""
    return _read(kernel.name, kernel.language, kernel.code)


@lru_cache(maxsize=256)  # dynamic sizes are counted anew for every run of a trace
def _read(name: str, language: str, code: str) -> GeneratedCode | None:
    if language == "triton":
        return read_triton(code, name)
    return read_cpp(code) if language == "cpp" else None


def counted(
    kernel: GeneratedKernel, scalars: Mapping[str, int], tensors: Mapping[str, NamedTensor]
) -> tuple[Access, ...]:
    """The accesses of one call: `scalars` and `tensors` are by parameter."""
    given = tuple(sorted(scalars.items()))
    found = accesses(_touches(kernel.name, kernel.language, kernel.code, given), tensors)
    return template(found) if _is_matmul(kernel.name) else found


@lru_cache(maxsize=256)  # a model calls the same kernel in every layer
def _touches(
    name: str, language: str, code: str, given: tuple[tuple[str, int], ...]
) -> tuple[Touch, ...]:
    known = _read(name, language, code)
    if isinstance(known, CppCode):
        return tuple(cpp_touches(known, dict(given)))
    return () if known is None else tuple(triton_touches(known, dict(given)))


def _is_matmul(name: str) -> bool:
    """A template of a matmul: `triton_tem_fused_addmm_0`."""
    return name.startswith("triton_tem_fused") and "mm" in name and "attention" not in name


def sized(
    call: KernelCall, kernels: Mapping[str, GeneratedKernel], symbols: Mapping[str, int]
) -> KernelCall:
    """The call with numbers for the symbols in its sizes; itself where it needs none."""
    if call.bytes is not None or not symbols:
        return call
    tensors = [_sized(access.tensor, symbols) for access in call.accesses]
    if call.extern:
        return with_tensors(call, tensors)
    kernel = kernels.get(call.kernel)
    code = generated(kernel) if kernel else None
    if kernel is None or code is None:
        return call
    held = {a.argument: t for a, t in zip(call.accesses, tensors, strict=True)}
    values = {
        name: value
        for name, text in zip(code.parameters, call.arguments, strict=False)
        if name not in code.pointers and (value := evaluate(text, symbols)) is not None
    }
    return replace(call, accesses=counted(kernel, values, held))


def _sized(tensor: NamedTensor, symbols: Mapping[str, int]) -> NamedTensor:
    def known(sizes: tuple[Size, ...]) -> tuple[Size, ...]:
        values = ((size, evaluate(size, symbols)) for size in sizes)
        return tuple(size if value is None else value for size, value in values)

    [offset] = known((tensor.offset,))
    return replace(tensor, shape=known(tensor.shape), stride=known(tensor.stride), offset=offset)
