"""What a kernel loads and stores, and the bytes that this moves.

That of a library's call is known by its tensors, that of a generated Triton or C++ kernel from its
text alone.

Every element counts once for loads and once for stores, however often the code names it: no more
than the tensor has, no more than the loops reach. An index or a mask that data decides leaves an
upper bound: `at_most`.

The code is parsed and never run. In Triton, `xindex`, `yindex` and `r0_index` are variables that
run over all of `xnumel`. An index reaches as many elements as its variables have values, and none
outside of its range. One that uses anything else (loaded values, floats, program ids) is not known.
Of C++ code the parameters alone are read: a kernel moves at most what its tensors hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.read.compiler.records import (
    ITEM_BYTES,
    Access,
    GeneratedKernel,
    KernelCall,
    Mode,
    NamedTensor,
    Size,
)
from foretrace.trace.compiled.syntax import Range, dotted, evaluate, number, parse, ranged

UNSIZED: tuple[Size, ...] = ("?",)
# every element of every operand is needed once, and every element of the result is written
_MATMULS = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm", "mv", "addmv", "dot", "copy_",
})  # fmt: skip
# needed too, but such kernels go over their data more than once or write results without a name
_PASSES = frozenset({
    "sort", "topk", "cumsum", "cumprod", "logcumsumexp", "all_reduce", "all_reduce_",
    "all_gather_into_tensor", "reduce_scatter_tensor", "randint", "randn", "rand", "normal_",
    "uniform_", "bernoulli_",
})  # fmt: skip


class Reach(Struct, frozen=True):
    """Elements of a buffer: the first, the last, and how many."""

    first: int
    last: int
    count: int


def together(parts: Iterable[Reach]) -> int:
    """The elements of all parts. Parts of one size between the same two elements are one."""
    found = set(parts)
    if not found:
        return 0
    span = max(part.last for part in found) - min(part.first for part in found) + 1
    return min(sum(part.count for part in found), span)


class Touch(Struct, frozen=True):
    """One load or store; `reach` is None if data decides its index or its mask."""

    argument: str  # the pointer
    mode: Mode
    text: str = ""
    reach: Reach | None = None
    most: int | None = None  # elements that it can reach at most, where that is known


def unseen(pointer: str, mutated: bool = False) -> Iterator[Touch]:
    """The touches of a pointer by its name, where the code that uses it is not understood."""
    both = pointer.startswith(("in_out", "ws", "sem"))
    stored = both or mutated or pointer.startswith("out")
    if both or not stored:
        yield Touch(pointer, "load")
    if stored:
        yield Touch(pointer, "store")


def accesses(touches: Sequence[Touch], tensors: Mapping[str, NamedTensor]) -> tuple[Access, ...]:
    """One access for each argument and mode; Inductor passes a buffer once."""
    groups: dict[tuple[str, str], list[Touch]] = {}
    for touch in touches:
        groups.setdefault((touch.argument, touch.mode), []).append(touch)
    return tuple(_access(group, tensors) for group in groups.values())


def _access(group: list[Touch], tensors: Mapping[str, NamedTensor]) -> Access:
    argument, mode = group[0].argument, group[0].mode
    tensor = tensors.get(argument) or unsized(argument)
    elements, exact = _elements(group, tensor)
    text = "; ".join(dict.fromkeys(touch.text for touch in group))
    return replace(_of_elements(tensor, mode, elements, exact), argument=argument, index=text)


def _of_elements(tensor: NamedTensor, mode: Mode, elements: int | None, exact: bool) -> Access:
    item = ITEM_BYTES.get(tensor.dtype)
    if elements is None or item is None:
        return Access(tensor, mode, None, "unknown")
    times = 2 if mode == "atomic" else 1  # each is read and written
    return Access(tensor, mode, elements * item * times, "exact" if exact else "at_most")


def _elements(group: list[Touch], tensor: NamedTensor) -> tuple[int | None, bool]:
    """The number of different elements, and whether it is exact; else an upper bound."""
    known = [touch.reach for touch in group if touch.reach]
    counted, held = together(known), storage(tensor)
    if len(known) == len(group) or (known and counted == held):
        # what is not known reaches nothing more
        return counted if held is None else min(counted, held), True
    most = [touch.reach.count if touch.reach else touch.most for touch in group]
    total = None if None in most else sum(count for count in most if count is not None)
    bounds = [bound for bound in (total, held) if bound is not None]
    return min(bounds, default=None), False


def unsized(name: str) -> NamedTensor:
    """A tensor whose sizes are not known; one without dimensions has one element."""
    return NamedTensor(name, "", UNSIZED, UNSIZED)


def storage(tensor: NamedTensor) -> int | None:
    """The elements that a tensor has in memory: a dimension of stride 0 repeats the same ones."""
    return _together([tensor])


def _together(views: Sequence[NamedTensor]) -> int | None:
    """The elements that views of one buffer have in memory, each once."""
    parts = []
    for view in views:
        begins = view.offset if len(views) > 1 else 0
        shape = [size for size in view.shape if isinstance(size, int)]
        stride = [size for size in view.stride if isinstance(size, int)]
        if not isinstance(begins, int) or not len(view.shape) == len(shape) == len(stride):
            return None
        if 0 not in shape:
            loops = list(zip(shape, stride, strict=True))
            last = begins + sum((size - 1) * step for size, step in loops)
            count = prod(size for size, step in loops if step)
            parts.append(Reach(begins, last, min(count, last - begins + 1)))
    return together(parts)


def base_op(name: str) -> str:
    """`sort` for `torch.ops.aten.sort.stable`, `mm` for `extern_kernels.mm`."""
    if name.startswith("aoti_torch_"):  # aoti_torch_cuda_mm_out
        return name.split("_", 3)[-1].removesuffix("_out")
    parts = name.split(".")
    known = {"ops": 2, "aten": 1, "extern_kernels": 1, "inductor_ops": 1, "_quantized": 1}
    for at, part in enumerate(parts):
        if part in known and at + known[part] < len(parts):
            return parts[at + known[part]]
    return parts[-1]


def library_accesses(
    name: str,
    operands: Iterable[NamedTensor],
    results: Sequence[NamedTensor],
    arguments: Sequence[str] = (),
) -> tuple[Access, ...]:
    """Loads of the operands, stores of the results; an op that ends in `_` writes in place."""
    op, read = base_op(name), list(dict.fromkeys(operands))
    if op == "wait_tensor":  # moves nothing
        return ()
    in_place = op.endswith("_")
    written = {tensor.name: tensor for tensor in results or (read[:1] if in_place else ())}
    loads = [tensor for tensor in read if tensor.name not in written]
    if (in_place or {*results} >= {*read}) and (results or op != "copy_"):
        loads += [tensor for tensor in read if tensor.name in written]
    used: list[tuple[NamedTensor, Mode]] = [(each, "load") for each in loads]
    return _whole(op, [*used, *((each, "store") for each in written.values())], arguments)


def template(found: Sequence[Access]) -> tuple[Access, ...]:
    """Accesses of a matmul's template: its index is not understood, but it needs every element."""
    needed = {("at_most", name) for name in ("arg_A", "arg_B", "out_ptr0")}
    return tuple(
        replace(each, certainty="exact") if (each.certainty, each.argument) in needed else each
        for each in found
    )


def with_tensors(call: KernelCall, tensors: Iterable[NamedTensor]) -> KernelCall:
    """A library's call with tensors of which more is known, one for each access."""
    modes: Iterator[Mode] = ("load" if each.mode == "load" else "store" for each in call.accesses)
    used = list(zip(tensors, modes, strict=True))
    found = _whole(base_op(call.kernel), used, call.arguments)
    return replace(call, accesses=found)


def _whole(
    op: str, used: Sequence[tuple[NamedTensor, Mode]], arguments: Sequence[str]
) -> tuple[Access, ...]:
    """Accesses to all of each tensor, as a library's kernel does it.

    Views of one buffer (q, k and v) count one by one. What two of them share counts once.
    """
    found: list[Access] = []
    again = "attention" in op or op in _PASSES or "reduce='mean'" in arguments  # divides at the end
    before: dict[tuple[str, Mode], list[NamedTensor]] = {}
    for tensor, mode in used:
        views = before.setdefault((tensor.name, mode), [])
        known, views[:] = _together(views) if views else 0, [*views, tensor]
        held = _together(views)
        apart = held is None or known is None
        new = storage(tensor) if held is None or known is None else held - known
        access = _of_elements(tensor, mode, new, not apart)
        if access.certainty == "exact" and op not in _MATMULS:
            access = replace(access, certainty="at_least" if again else "at_most")
        found.append(access)
    return tuple(found)


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
_PARAMETER = regex(r"(const )?([\w:]{1,60}(?: char)?) ?(\*?) ?(?:__restrict__ )?(\w{1,200})")
Variables = frozenset[tuple[str, int]]  # names, and how many values each has


class Names:
    """What the names of generated code are: whole numbers of a range, masks of these, or data."""

    def __init__(self, scalars: Mapping[str, int]) -> None:
        self.ranges: dict[str, Range | None] = {name: (n, n) for name, n in scalars.items()}
        self.behind: dict[str, Variables | None] = {}  # what a value varies with, if known
        self.values: dict[str, ast.expr] = {}

    def run(self, name: str, values: Range | None) -> None:
        """Make `name` a variable that takes these values."""
        self.ranges[name], self.behind[name] = values, None
        if values is not None:
            self.behind[name] = frozenset({(name, _width(values))})

    def assign(self, name: str, value: ast.expr) -> None:
        """Learn what `name` is; what a loop adds up is not known."""
        again = name in _names(value)
        self.ranges[name] = None if again else ranged(value, self.ranges)
        self.behind[name] = None if again else self._variables(value)
        self.values[name] = value

    def _variables(self, node: ast.expr) -> Variables | None:
        """The variables that a value depends on, also through data; None if not known."""
        words = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        found = [self.behind.get(name, frozenset()) for name in _names(node)]
        if None in found or not words.isdisjoint(("program_id", "arange")):
            return None
        return frozenset(each for known in found if known for each in known)

    def reach(self, index: ast.expr, mask: ast.expr | None) -> tuple[Reach | None, int | None]:
        """The elements of an index where a mask holds, and how many it can reach at most."""
        variables, limits = self._variables(index), self._limits(mask)
        most = None if variables is None else prod(size for _, size in variables)
        names = _names(index)
        ranges = self.ranges | (limits or {})
        values = ranged(index, ranges)
        if values is None or most is None:
            return None, most
        inside = prod(_width(each) for name in names if (each := ranges.get(name)))
        reach = Reach(*values, min(most, inside, _width(values)))
        sure = limits is not None and limits.keys() <= names
        return (reach, most) if sure else (None, reach.count)

    def _limits(self, mask: ast.expr | None) -> dict[str, Range] | None:
        """The variables that a mask limits, beyond the edges of loops; None if data decides it."""
        match mask:
            case None | ast.Constant(value=None):
                return {}
            case ast.Name(id=name):
                return {} if name.endswith("mask") else self._limits(self._value(name))
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                one, two = self._limits(left), self._limits(right)
                return None if one is None or two is None else one | two
            case ast.Compare(left=ast.Name(id=name), ops=[kind], comparators=[right]):
                held = self._value(name)
                name = held.id if isinstance(held, ast.Name) else name
                values, edge = self.ranges.get(name), ranged(right, self.ranges)
                if values is None or edge is None or edge[0] != edge[1]:
                    return None
                (low, high), at = values, edge[0]
                below = isinstance(kind, ast.Lt | ast.LtE)
                last = at - 1 if isinstance(kind, ast.Lt) else at
                first = at + 1 if isinstance(kind, ast.Gt) else at
                return {name: (low, min(high, last)) if below else (max(low, first), high)}
        return None

    def _value(self, name: str) -> ast.expr | None:
        """What was last assigned to a name; a name that is not known is data."""
        return self.values.get(name, ast.Tuple([], ast.Load()))


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _width(values: Range) -> int:
    return max(values[1] - values[0] + 1, 0)


class GeneratedCode(Struct, frozen=True):
    """A kernel's parameters, its pointers (`in_ptr0: bf16`) and those that it may write.

    Triton code also has fixed options (`R0_BLOCK`) and the function itself.
    """

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    mutated: tuple[str, ...]
    config: dict[str, int] = {}
    function: ast.FunctionDef | None = None


def read_triton(code: str, name: str = "") -> GeneratedCode | None:
    """The kernel in a text; helper functions precede it. None if there is none."""
    module = parse(code)
    body = module.body if module else []
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    named = [each for each in functions if each.name == name] or functions[-1:]
    if not named:
        return None
    arguments = named[0].args
    parameters = tuple(each.arg for each in (*arguments.args, *arguments.kwonlyargs))
    decorators = [each for each in named[0].decorator_list if isinstance(each, ast.Call)]
    given = {word.arg or "": word.value for call in decorators for word in call.keywords}
    mutated = _literal(given.get("inductor_meta"), "mutated_arg_names")
    names = tuple(map(str, mutated)) if isinstance(mutated, list) else ()
    pointers = _pointers(_literal(given.get("triton_meta"), "signature"), parameters)
    return GeneratedCode(parameters, pointers, names, _config(named[0], given), named[0])


def _pointers(signature: object, parameters: tuple[str, ...]) -> dict[str, str]:
    """The short type of every pointer, by the signature that Inductor writes above the kernel."""
    found = {}
    for at, kind in signature.items() if isinstance(signature, dict) else ():
        if str(kind).startswith("*"):
            # before torch 2.6 the place of the parameter
            name = parameters[at] if isinstance(at, int) and at < len(parameters) else str(at)
            found[name] = _TRITON_TYPES.get(str(kind)[1:], "")
    return found


def _literal(mapping: ast.expr | None, name: str) -> object:
    """The value of a key in a dict, where it is a literal; other values may be calls."""
    known = mapping if isinstance(mapping, ast.Dict) else ast.Dict([], [])
    for key, value in zip(known.keys, known.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == name:
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError, RecursionError, MemoryError):
                return None
    return None


def _config(function: ast.FunctionDef, given: Mapping[str, ast.expr]) -> dict[str, int]:
    """Options that the text fixes: `num_warps=4` above, `R0_BLOCK: tl.constexpr = 1024` in it."""
    found = {name: number(given.get(name)) for name in ("num_warps", "num_stages")}
    for each in function.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value:
            found[each.target.id] = number(each.value)
    return {name: value for name, value in found.items() if value is not None}


def touches(code: GeneratedCode, scalars: Mapping[str, int]) -> Iterator[Touch]:
    """Every load, store and atomic operation, in order; `scalars` are whole-number arguments."""
    reader = _Reader(code, scalars)
    reader.statements(code.function.body if code.function else [])
    yield from reader.found
    seen = {touch.argument for touch in reader.found}
    for pointer in (each for each in code.pointers if each not in seen):
        yield from unseen(pointer, pointer in code.mutated)


class _Reader:
    """Reads the statements once: every loop and every branch runs for some program."""

    def __init__(self, code: GeneratedCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {name: name for name in code.pointers}  # and other names for them
        self.blocks: dict[str, ast.Call] = {}  # block pointers and tensor descriptors
        self.names = Names(scalars)
        self.found: list[Touch] = []

    def statements(self, body: list[ast.stmt]) -> None:
        for each in body:
            match each:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    self._touch(value)
                    size = self.names.ranges.get(f"{name.removesuffix('index')}numel")
                    if isinstance(value, ast.Name) and value.id in self.pointers:
                        self.pointers[name] = self.pointers[value.id]
                    elif isinstance(value, ast.Call) and dotted(value.func) in _BLOCKS:
                        self.blocks[name] = value
                    elif _ROOT.fullmatch(name) and size and size[0] > 0:
                        self.names.run(name, (0, size[0] - 1))
                    else:
                        self.names.assign(name, value)
                case ast.For(iter=head, body=inner) | ast.While(test=head, body=inner):
                    self._touch(head)
                    if isinstance(each, ast.For):
                        self._forget(each.target)
                    self.statements([*inner, *each.orelse])
                case ast.If(test=test, body=inner, orelse=last):
                    self._touch(test)
                    self.statements([*inner, *last])
                case ast.AugAssign(target=ast.Name(id=name)) if _ROOT.fullmatch(name):
                    pass  # `xindex += XBLOCK` goes on over the same variable
                case _:
                    self._touch(each)
                    self._forget(each)

    def _forget(self, node: ast.AST) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.names.run(each.id, None)

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
        for name in self._held(pointer):
            text, reach, most = self._index(pointer, mask)
            self.found.append(Touch(self.pointers[name], mode, text, reach, most))

    def _held(self, node: ast.expr) -> list[str]:
        """The pointers in an expression. Where it has two, the index of both is not known."""
        names = dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        return [name for name in names if name in self.pointers]

    def _index(
        self, pointer: ast.expr, mask: ast.expr | None
    ) -> tuple[str, Reach | None, int | None]:
        """What is added to the pointer, and the elements that this reaches."""
        match pointer:
            case ast.Name():
                return "0", Reach(0, 0, 1), 1
            case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=index):
                if name in self.pointers and not self._held(index):
                    return ast.unparse(index), *self.names.reach(index, mask)
        return ast.unparse(pointer), None, self.names.reach(pointer, None)[1]

    def _block(self, made: ast.Call, mode: Mode) -> None:
        """All of what a block pointer or a descriptor describes: its blocks cover it."""
        words = {word.arg: word.value for word in made.keywords}
        listed = [words.get(name) for name in ("shape", "strides")]
        shape, strides = (e.elts if isinstance(e, ast.List | ast.Tuple) else [] for e in listed)
        sizes, steps = (
            [ranged(each, self.names.ranges) or (0, 0) for each in part]
            for part in (shape, strides)
        )
        whole = made.args and isinstance(made.args[0], ast.Name) and shape
        reach = None
        if whole and len(sizes) == len(steps) and all(low == high > 0 for low, high in sizes):
            last = sum((size - 1) * step for (size, _), (step, _) in zip(sizes, steps, strict=True))
            reach = Reach(0, last, prod(size for size, _ in sizes))
        text = ast.unparse(ast.Tuple([*shape, *strides], ast.Load()))
        self.found += [Touch(self.pointers[name], mode, text, reach) for name in self._held(made)]


def read_cpp(code: str) -> GeneratedCode | None:
    """The kernel in a text: the last function that C can call. None if there is none."""
    _, found, rest = code.rpartition('extern "C"')
    head = rest.partition("{")[0]
    inside = head[head.find("(") + 1 : head.rfind(")")] if "(" in head else ""
    given = [_PARAMETER.fullmatch(" ".join(part.split())) for part in inside.split(",")]
    known = [each for each in given if each]
    if not found or len(known) < len(given):
        return None
    pointers = {each[4]: _CPP_TYPES.get(each[2], "") for each in known if each[3]}
    written = tuple(each[4] for each in known if each[3] and not each[1])
    return GeneratedCode(tuple(each[4] for each in known), pointers, written)


@lru_cache(maxsize=256)  # dynamic sizes are counted anew for every run of a trace
def generated(name: str, language: str, code: str) -> GeneratedCode | None:
    """What is known of a kernel's code; None where it is not understood."""
    if language == "triton":
        return read_triton(code, name)
    return read_cpp(code) if language == "cpp" else None


def counted(
    kernel: GeneratedKernel, scalars: Mapping[str, int], tensors: Mapping[str, NamedTensor]
) -> tuple[Access, ...]:
    """The accesses of one call: `scalars` and `tensors` are by parameter."""
    given = tuple(sorted(scalars.items()))
    found = accesses(_touches(kernel.name, kernel.language, kernel.code, given), tensors)
    # a template of a matmul: `triton_tem_fused_addmm_0`
    is_template = kernel.name.startswith("triton_tem_fused") and "attention" not in kernel.name
    return template(found) if is_template and "mm" in kernel.name else found


@lru_cache(maxsize=256)  # a model calls the same kernel in every layer
def _touches(
    name: str, language: str, code: str, given: tuple[tuple[str, int], ...]
) -> tuple[Touch, ...]:
    known = generated(name, language, code)
    return tuple(touches(known, dict(given))) if known else ()


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
    code = generated(kernel.name, kernel.language, kernel.code) if kernel else None
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
