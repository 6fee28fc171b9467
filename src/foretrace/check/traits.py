"""What is known of one kernel: the fields that its name states, how it was launched, its bound, and
whether it is what an adjective says (`has_trait`).

A field that does not apply (the layout of a gelu) is absent. One that applies and that the name
does not state is unknown, and so is a prediction about it. The exception is marks that a family of
names always writes when they apply: nvjet writes `bias` and `splitK`, so a name without them states
their absence. What a name leaves open, the recorded arguments of its op may say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from foretrace.base.patterns import regex
from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.windows import inside
from foretrace.check.words import (
    DTYPES,
    EQUALS,
    NUMBER,
    UNITS,
    Amount,
    Compare,
    ParseFailure,
    Token,
    Trait,
    key_at,
    language,
    text_at,
)
from foretrace.trace.recording import op_call
from foretrace.work import families
from foretrace.work.costs import short_type
from foretrace.work.costs.attention import BACKWARD, FORWARD
from foretrace.work.costs.attention import described as described_call
from foretrace.work.kernel_row import facts

ABSENT = object()  # the kernel has no such thing
UNSTATED = object()  # it may have it; nothing in the trace says


@dataclass(frozen=True, slots=True)
class Field:
    """`keys` are tried in order; `roles` are those it applies to (empty: all).

    `source` is name, case (family and role), launch, bound or row (of `KernelRow`). With `mark`, a
    name without the field states its absence.
    """

    name: str
    meaning: str
    keys: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    source: str = "name"
    mark: bool = False


_ATTENTION = FORWARD | BACKWARD
_SPACED = ("shared_memory", "tensor_core", "head_dim", "batch_mode")
_PHRASES = {name.replace("_", " "): name for name in _SPACED}
_PHRASES |= {"vector width": "vec", "split k": "splitk"}
_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")


@cache
def described() -> tuple[Field, ...]:
    """The fields that the manual lists."""
    found = []
    for line in language("fields").strip().splitlines():
        name, source, roles, keys, meaning = (part.strip() for part in line.split("|"))
        applies, mark = (tuple(keys.split()), tuple(roles.split())), name.endswith("*")
        found.append(Field(name.removesuffix("*"), meaning, *applies, source, mark))
    return tuple(found)


@cache
def fields() -> dict[str, Field]:
    """Every field by name: those described, and whatever else a family of names states."""
    stated = {key for family in families.every() for key in family.states}
    known = {field.name: field for field in described()}
    known |= {
        name: Field(name, f"{fact.head} of the kernel, as `look --kernels` shows it", source="row")
        for name, fact in facts().items()
        if fact.head
    }
    others = sorted(stated - set(known))
    return known | {key: Field(key, "as `foretrace explain` prints it", (key,)) for key in others}


@cache
def _stated_by(family: str) -> frozenset[str]:
    """The fields that names of this family can state."""
    return frozenset(key for each in families.every() if each.name == family for key in each.states)


def read_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    """`layout`, `shared memory`, `splitk`."""
    words = " ".join(token.key for token in tokens[place : place + 2])
    if words in _PHRASES:
        return fields()[_PHRASES[words]], place + 2
    word = key_at(tokens, place)
    if word not in fields():
        raise ParseFailure(place, [*fields(), *(phrase.split()[0] for phrase in _PHRASES)])
    return fields()[word], place + 1


def read_value(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """One word; a size can have a unit: `100 kB` is `100000`."""
    text = text_at(tokens, place)
    if place >= len(tokens) or (not tokens[place].quoted and text in "==!=<=>=,:~"):
        raise ParseFailure(place, ["a value"])
    unit = UNITS["bytes"].get(text_at(tokens, place + 1))
    if unit is not None and NUMBER.fullmatch(text) and text.isascii() and text.isdigit():
        return str(int(int(text) * unit)), place + 2
    return text, place + 1


def value_of(evidence: Evidence, row: int, field: Field) -> Any:
    """What the kernel in this row states for the field, else `ABSENT` or `UNSTATED`."""
    operation = evidence.operation(row)
    if field.source == "case":
        return operation.ident.family if field.name == "family" else operation.role
    if field.source == "row" or field.name == "roof":
        kernel = evidence.kernel(row)
        name = "roof_percent" if field.name == "roof" else field.name
        value = kernel and getattr(kernel, name)
        return UNSTATED if value is None else value
    if field.source == "bound":
        bound = evidence.trace.work_bounds[row]
        return UNSTATED if bound == "unknown" else bound
    if field.source == "launch":
        value = evidence.footprint(row, field.name)
        return UNSTATED if value is None else value
    stated = _stated(operation, field)
    if field.name == "splitk" and int(evidence.trace.origins.op[row]) in evidence.split_ops:
        return True
    return _from_arguments(evidence, row, field) if stated is UNSTATED else stated


def _from_arguments(evidence: Evidence, row: int, field: Field) -> Any:
    """What the op that launched the kernel was called with."""
    call = op_call(evidence.trace, int(evidence.trace.origins.op[row]))
    places = _ATTENTION.get(call.name) if call and field.name in ("head_dim", "causal") else None
    said = described_call(call, places) if call and places else None
    value = said and getattr(said, field.name)
    return UNSTATED if value is None else value


def _stated(operation: GpuOperation, field: Field) -> Any:
    ident = operation.ident
    stated = next((ident.get(key) for key in field.keys if ident.get(key) is not None), None)
    if stated is not None:
        return stated
    if field.roles and operation.role not in field.roles:
        return ABSENT
    return ABSENT if field.mark and field.name in _stated_by(ident.family) else UNSTATED


def agrees(actual: Any, compare: Compare | None, wanted: str | None) -> bool | None:
    """Whether a value is the wanted one; without a wanted value, whether there is one at all."""
    if actual is UNSTATED:
        return None
    if actual is ABSENT:
        return False
    if wanted is None:
        return bool(actual)
    symbol = (compare or EQUALS).symbol
    if symbol in ("==", "!="):
        return _same(actual, wanted) is (symbol == "==")
    number = _number(wanted)
    if number is None or not isinstance(actual, int | float):
        return None
    return Compare(symbol).of(actual, Amount(wanted, number)) == "hit"


def _number(word: str) -> float | None:
    found = NUMBER.fullmatch(word.removesuffix("%"))
    return float(found[1]) if found and not found[3] else None


def _same(actual: Any, wanted: str) -> bool:
    word = wanted.lower()
    if isinstance(actual, bool):
        return word in (_YES if actual else _NO)
    if isinstance(actual, list):
        return _same_list(actual, word)
    if isinstance(actual, int | float):
        return _number(word) == actual
    return str(actual).lower() in (word, DTYPES.get(word, word))


def _same_list(actual: list[Any], word: str) -> bool:
    """Sizes can be cut short (`256x128` is any depth); of several words one is enough."""
    if all(isinstance(item, int) for item in actual):
        sizes = word.split("x")
        return len(sizes) <= len(actual) and [str(item) for item in actual[: len(sizes)]] == sizes
    return word in [str(item).lower() for item in actual]


def value_text(actual: Any) -> str:
    """A value for people."""
    if isinstance(actual, float):
        return f"{actual:.0f}"
    if actual is UNSTATED or actual is ABSENT:
        return "not stated" if actual is UNSTATED else "none"
    return families.value_text(actual)


# the type at the end of the name of a NCCL kernel that adds up: `Sum_float`, `Sum_bf16_RING_LL`
_REDUCED = regex(r"^nccl\w*_(?:Sum|Prod|Min|Max|SumPostDiv|PreMulSum)_([a-z]+\d*)", re.I)
_NCCL_TYPES = {
    **dict.fromkeys(("float", "f32"), "f32"),
    **dict.fromkeys(("half", "f16"), "f16"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16"),
    **dict.fromkeys(("double", "f64"), "f64"),
}
_MATMUL_OPS = tuple((f"aten::{name}",) for name in ("mm", "addmm", "bmm", "baddbmm"))
_HALVES = {"f16", "bf16"}
_SDPA = regex(r"scaled_?dot_?product", re.IGNORECASE)
_BACKEND = regex(r"_(flash|efficient|cudnn)_attention")
_BACKENDS = {"flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn"}
_WIDTHS = {"f64": 8, "f32": 4, "tf32": 4, "bf16": 2, "f16": 2, "i8": 1, "e4m3": 1, "e5m2": 1}
_NO_TENSOR = ("", "Scalar", "ScalarList", "GenericList", "None", "Device")
_ENDS = ("src", "dst")  # of a copy
_MEMORY = ("pageable", "pinned")
CROSSES = "crosses"  # a copy between the host and a GPU
_IMAGE = 4  # dimensions from which on a tensor has a channel


def has_trait(evidence: Evidence, row: int, trait: Trait) -> bool | None:
    """Whether a kernel is `bf16`, `nvjet`, `memory-bound`, …; None when the trace does not say."""
    if trait.kind in _TESTS:
        return _TESTS[trait.kind](evidence, row, trait.value)
    field = "tensor_core" if trait.kind == "core" else trait.kind
    value = value_of(evidence, row, fields()[field])
    of_class = field == "dtype" and value == evidence.operation(row).ident.get("dtype_class")
    if of_class and trait.value in _HALVES:  # `f16 or bf16`: the op says which
        types = types_of(evidence, int(evidence.trace.origins.op[row])) or ()
        halves = _HALVES & {*types}
        return trait.value in halves if len(halves) == 1 else None
    if value is UNSTATED:
        return _recorded_type(evidence, row, trait.value) if trait.kind == "dtype" else None
    return str(value).lower() in (trait.value, DTYPES.get(trait.value, trait.value))


def types_of(evidence: Evidence, op: int) -> list[str] | None:
    """The types of the tensors that an op took, `?` for those of a list; None if not recorded."""
    found = evidence.trace.origins.arguments.of(op)
    if found is None:
        return None
    known = (short_type(each) for each in found.types if each not in _NO_TENSOR)
    return ["?" if each == "TensorList" else each for each in known] or None


def _recorded_type(evidence: Evidence, row: int, wanted: str) -> bool | None:
    """By the width that the name states, else by the tensors that the op took."""
    ident = evidence.operation(row).ident
    if evidence.operation(row).role == "comms" and (said := _REDUCED.search(ident.name)):
        return _NCCL_TYPES.get(said[1].lower()) == wanted
    width, copied = ident.get("element_bytes"), [ident.get(f"{end}_dtype") for end in _ENDS]
    if isinstance(width, int) and width != _WIDTHS.get(wanted, width):
        return False
    if all(copied):
        return None if wanted in copied else False
    types = types_of(evidence, int(evidence.trace.origins.op[row]))
    # Triton widens to float32 inside, and a matmul of float32 may run in tf32.
    inside = wanted == "tf32" or (wanted == "f32" and "triton" in evidence.operation(row).name)
    if types is None or inside or "?" in types:
        return None
    matrix = evidence.operation(row).role in ("gemm", "conv") and wanted != "f32"
    return (matrix and set(types) == {wanted}) or (None if wanted in types else False)


def _has_role(evidence: Evidence, row: int, role: str) -> bool:
    if role == "optimizer" and evidence.steps_an_optimizer:
        # a loop over parameters launches pointwise kernels; clipping and scaling use foreach too
        return str(evidence.trace.work_groups[row]) == role
    return evidence.operation(row).role == role


def _is_sdpa(evidence: Evidence, row: int, _: str) -> bool | None:
    operation = evidence.operation(row)
    called = any(map(_SDPA.search, operation.chain))
    if operation.role == "attention":
        return called or (False if operation.chain else None)
    if called or "attention" in evidence.roles:
        return called and "attention" not in evidence.roles
    # a compiler writes it out as matmuls and a softmax
    return None if evidence.is_compiled and operation.role in ("gemm", "softmax") else False


def _direction(evidence: Evidence, row: int, word: str) -> bool | None:
    name = evidence.operation(row).name.lower()
    memory = any(kind in word for kind in _MEMORY)
    unstated = memory and not any(kind in name for kind in _MEMORY)
    crosses = any(kind in name for kind in ("htod", "dtoh", "host"))
    if word == CROSSES:
        return crosses
    return None if unstated and crosses else word in name


def _in_phase(evidence: Evidence, row: int, phase: str) -> bool | None:
    operation = evidence.operation(row)
    if phase == "backward":
        said = f"{operation.name} {operation.ident.get('op')}"
        named = bool(re.search(r"backward|_bwd|_bprop|\bbn_bw", said))
        return named or bool(evidence.in_engine[row]) or (False if operation.chain else None)
    if not evidence.has_backward:  # without a backward pass nothing says where forward ends
        return True if re.search(r"forward|_fwd|_fprop", operation.name) else None
    if evidence.trace.gpu.launch[row] < 0 or "Graph" in evidence.launch_name(row):
        return None
    return bool(evidence.is_forward[row])


def _is_depthwise(evidence: Evidence, row: int, _: str) -> bool | None:
    operation = evidence.operation(row)
    if operation.role != "conv" or "depthwise" in operation.name.lower():
        return operation.role == "conv"
    call = op_call(evidence.trace, int(evidence.trace.origins.op[row]))
    first = 1 if call and "backward" in call.name else 0
    sizes = [call.tensor(first + place) for place in (0, 1)] if call else [None]
    dims = [size.dims for size in sizes if size is not None and len(size.dims) > 2]
    return bool(dims[0][1] > 1 and dims[1][1] == 1) if len(dims) == 2 else None


def _changes_layout(evidence: Evidence, row: int, _: str) -> bool | None:
    """NCHW to NHWC or back, by cuDNN or by a copy; another transposing copy may be one."""
    operation, op = evidence.operation(row), int(evidence.trace.origins.op[row])
    converts = bool(operation.ident.get("op") == "layout_transform")
    if converts or operation.role != "copy":
        return converts
    if operation.chain[-1:] != ("aten::copy_",):
        return False
    found = evidence.trace.origins.arguments.of(op)
    strides = found.tensor_strides if found else None
    if found is None or strides is None:
        return None
    if len(strides) < 2 or len(strides[0]) < _IMAGE or found.tensors[0][1] == 1:
        return False
    orders = [sorted(range(len(each)), key=lambda at: -each[at]) for each in strides[:2]]
    last = [each[1] == 1 for each in strides[:2]]
    return last[0] != last[1] or (None if orders[0] != orders[1] else False)


def _is_optimizer(evidence: Evidence, row: int, name: str) -> bool | None:
    """A kernel of the optimizer of this name, by its region or by its fused op."""
    if str(evidence.trace.work_groups[row]) != "optimizer":
        return False
    last = "".join(evidence.operation(row).chain[-1:])
    _, fused, of = last.partition("_fused_")
    names = {of.removesuffix("_")} if fused else evidence.optimizers
    return (True if names == {name} else None) if name in names else (False if names else None)


def _called(evidence: Evidence, row: int, pattern: str) -> bool | None:
    operation = evidence.operation(row)
    if re.search(pattern, " ".join((*operation.chain, operation.name)), re.IGNORECASE):
        return True
    return None if operation.ident.family == "unknown" and not operation.chain else False


_ACTIVATIONS = r"relu|gelu|silu|sigmoid|tanh|swish|mish|softplus|\belu|glu"


def _activates(evidence: Evidence, row: int, _: str) -> bool | None:
    """A kernel of an activation function, also a fused one; no matmul with one in its epilogue."""
    pointwise = evidence.operation(row).role not in ("gemm", "gemv", "conv", "attention")
    return pointwise and _called(evidence, row, _ACTIVATIONS)


def _is_collective(evidence: Evidence, row: int, pattern: str) -> bool:
    operation = evidence.operation(row)
    names = " ".join((*operation.chain[-2:], operation.name))
    return operation.role == "comms" and bool(re.search(pattern, names, re.IGNORECASE))


def _of_matmul(evidence: Evidence, row: int, _: str) -> bool:
    """A matmul, or a kernel that its op launches beside it: the sum of a split one."""
    operation = evidence.operation(row)
    return operation.role in ("gemm", "gemv") or operation.chain[-1:] in _MATMUL_OPS


def _of_family(evidence: Evidence, row: int, word: str) -> bool | None:
    """By the family of the name, for attention also by the backend that its op names."""
    operation = evidence.operation(row)
    family = operation.ident.family
    found = _BACKEND.search(" ".join(operation.chain)) if operation.role == "attention" else None
    if word in family or (found and _BACKENDS[found[1]] == word):
        return True
    if word == "flash" and operation.role == "attention" and word in operation.name.lower():
        return None  # cuDNN has a flash algorithm of its own
    if word == "cublas" and operation.role == "gemm":  # its kernels have other names
        by_name = {"nvjet": True, "xmma": True, "cutlass": None}
        return next((known for name, known in by_name.items() if name in family), False)
    if word == "cudnn" and operation.role == "conv":  # its op says who chose the kernel
        return True if any("cudnn" in op for op in operation.chain) else None
    hidden = operation.role == "attention" and "triton" in family and not found
    return None if family == "unknown" or hidden else False


def is_torchs_triton(evidence: Evidence, row: int) -> bool:
    """A kernel of PyTorch's own attention on ROCm: few people mean it by `Triton kernels`."""
    operation = evidence.operation(row)
    own = operation.role == "attention" and "triton" in operation.ident.family
    return own and bool(_BACKEND.search(" ".join(operation.chain)))


def _inside(kind: str, evidence: Evidence, row: int, name: str) -> bool:
    """Whether a range or a module launched it."""
    if (kind, name) not in evidence.masks:
        evidence.masks[kind, name] = inside(evidence, kind, name)
    return bool(evidence.masks[kind, name][row])


_TESTS: dict[str, Callable[[Evidence, int, str], bool | None]] = {
    "role": _has_role,
    "group": lambda evidence, row, group: str(evidence.trace.work_groups[row]) == group,
    "work": lambda evidence, row, _: evidence.operation(row).role != "comms",
    "cast": lambda evidence, row, _: evidence.is_cast(row),
    "family": _of_family,
    "sdpa": _is_sdpa,
    "direction": _direction,
    "phase": _in_phase,
    "collective": _is_collective,
    "matmul": _of_matmul,
    "depthwise": _is_depthwise,
    "layout": _changes_layout,
    "optimizer": _is_optimizer,
    "called": _called,
    "activation": _activates,
    "named": lambda evidence, row, word: word in evidence.operation(row).name.lower(),
    "elementwise": lambda evidence, row, _: (
        evidence.operation(row).role == "pointwise"
        or "elementwise" in evidence.operation(row).name.lower()
    ),
    "main": lambda evidence, row, _: (
        not str(evidence.operation(row).ident.get("op")).endswith("process")
    ),
    "region": partial(_inside, "region"),
    "module": partial(_inside, "module"),
}
