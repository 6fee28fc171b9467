"""What words tell: ATen's ops and their roles, the op behind a functor or a fused kernel's name,
the role of a plain function name; libraries whose names are literal.
"""

from __future__ import annotations

from functools import cache, lru_cache

from foretrace.work.families import _cpp
from foretrace.work.families._parser import NameParser, family
from foretrace.work.families._tables import by_role, row_for, rx, word_set, words
from foretrace.work.kernel import Family, KernelId

VIEWS = word_set("""
    _reshape_alias _unsafe_view alias as_strided detach expand expand_as permute reshape select
    slice split split_with_sizes squeeze t transpose unbind unfold unsafe_split
    unsafe_split_with_sizes unsqueeze view
""")
MATMULS = word_set("""
    mm bmm addmm baddbmm _scaled_mm _grouped_mm _scaled_grouped_mm _int_mm scaled_mm matmul
    linear _addmm_activation addbmm mv grouped_gemm
""")
_COMMS = ("c10d", "_c10d_functional", "symm_mem", "nccl")
_MOST_WORDS = 10  # of one op: _scaled_dot_product_flash_attention_for_cpu_backward has nine
_LAMBDA = r"[{\[]lambda ?\(([^(){}\[\]]*)\)"
_ENDINGS = "CUDAKernelImpl KernelImpl _kernel_cuda _cuda_kernel _kernel_impl _cuda_out _kernel"
_SPLIT = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*[a-z]*|[A-Z]+|\d+"
_NOISE = r"^_+|(?<!_)_+$|^(?:triton|void)_|_(?:kernel|cuda|hip|triton|gpu)(?=_|$)"


@cache
def vocabulary() -> frozenset[str]:
    """The ops that Inductor's kernel names list: an op list is split with them."""
    return word_set(words("ops"))


@cache
def _role_by_op() -> dict[str, str]:
    return {op: role for role, ops in by_role("roles") for op in ops}


def is_op(word: str) -> bool:
    """Is this the name of an ATen op?"""
    return word in vocabulary()


@lru_cache(maxsize=4096)
def role_of_op(op: str) -> str:
    """`aten::addmm` -> `gemm`. Ops of other namespaces (`vllm::moe_forward`) go by their words."""
    namespace, _, name = op.rpartition("::")
    if namespace in _COMMS or op.startswith(("nccl:", "record_param_comms")):
        return "comms"
    name = name.split(".")[0]
    if namespace != "aten":
        return role(name)
    known, plain = _role_by_op(), name.removesuffix("_out").rstrip("_")
    stem = plain.partition("_backward")[0]
    return known.get(plain) or known.get(stem) or known.get(f"_{stem}") or role(name)


@lru_cache(maxsize=4096)
def split_ops(text: str) -> tuple[str, ...]:
    """`_to_copy_add_native_layer_norm` -> `_to_copy`, `add`, `native_layer_norm`; linear."""
    ops: list[str] = []
    position, unknown = 0, False
    while position < len(text):
        # The op that begins here: the longest one after which the text goes on with an op, else the
        # longest.
        # The list is sorted, so a smaller op after an unknown word belongs to that word.
        previous = ops[-1] if ops else ""
        fits = _beginning(text, position)
        ordered = [word for word in fits if word > previous]
        going_on = (
            word
            for word in ordered
            if position + len(word) == len(text) or _beginning(text, position + len(word) + 1)
        )
        best = next(going_on, "") or next(iter(ordered), "")
        word = best or ("" if unknown else next(iter(fits), ""))
        end = position + len(word) if word else _next(text, position + 1)
        if not word and unknown:
            ops[-1] += text[position - 1 : end]
        else:
            ops.append(text[position:end])
        unknown = not word
        position = end + 1
    return tuple(ops)


def _beginning(text: str, start: int) -> list[str]:
    """All ops of the vocabulary that the text has at `start`, the longest first."""
    ends = [_next(text, start + 1)]
    while len(ends) < _MOST_WORDS and ends[-1] < len(text):
        ends.append(_next(text, ends[-1] + 1))
    return [word for end in reversed(ends) if (word := text[start:end]) in vocabulary()]


def _next(text: str, start: int) -> int:
    at = text.find("_", start)
    return at if at >= 0 else len(text)


def op_word(functor: str) -> str:
    """`GeluBackwardCUDAKernelImpl` -> `gelu_backward`, `rsqrt_kernel_cuda` -> `rsqrt`."""
    word = functor.removeprefix("CUDAFunctor_").removeprefix("launch_")
    for ending in (*_ENDINGS.split(), "Functor", "_cuda", "_impl"):
        word = word.removesuffix(ending)
    word = rx(r"(?<=[a-z0-9])(?=[A-Z])").sub("_", word).lower().strip("_")
    row = row_for("misleading", word)
    return row[0] if row else word


def lambda_types(text: str) -> list[str]:
    """The argument types of the innermost lambda. Lambda numbers are dispatch branches."""
    found = [inner for inner in rx(_LAMBDA).findall(text) if inner.strip()]
    return list(_cpp.split(found[-1])) if found else []


def lambda_dtype(text: str) -> tuple[str, str] | None:
    """The type and spelling that the innermost lambda works on (`bool` masks aside), if one."""
    known = {dtype: written for written in lambda_types(text) if (dtype := _cpp.dtype(written))}
    if len(known) > 1:
        known.pop("bool", None)
    return next(iter(known.items())) if len(known) == 1 else None


@lru_cache(maxsize=4096)
def role(name: str) -> str:
    """The role that the words of a function's name suggest, or `other`."""
    text = f"_{'_'.join(rx(_SPLIT).findall(name[:400])).lower()}_"
    table = by_role("role_words")
    return next((role for role, marks in table if any(mark in text for mark in marks)), "other")


def plain(name: str) -> str:
    """`_topk_forward_kernel` -> `topk fwd`."""
    text = rx(_NOISE).sub("", rx(_NOISE).sub("", name[:400]))
    text = text.replace("forward", "fwd").replace("backward", "bwd").replace("Kernel", "")
    return rx(r"_(fwd|bwd)(?=_|$)").sub(r" \1", text).strip("_ ") or name[:60]


def library(namespace: str, lib: str, states: str) -> Family:
    """A family of literal C++ names: everything below one namespace, which names the family."""

    @family(namespace, 34, states, hint=f"{namespace}::")
    def decode(r: NameParser) -> KernelId | None:
        return literal(r, lib) if r.cpp.scope.split("::")[0] == namespace else None

    return decode


def literal(r: NameParser, lib: str) -> KernelId:
    """Role and short name from the function's words; the type from its template arguments."""
    readable, r.certainty = plain(r.base), "inferred"
    r.note(r.base, f"the name is literal: {readable}")
    r.put(r.cpp.scope.split("::")[0] or r.base, "lib", lib)
    known = role(r.base)
    known = known if known != "other" else role(f"{r.cpp.scope}_{r.base}")
    return r.done(known, "", readable, first_type(r))


def first_type(r: NameParser) -> str:
    """State the first type among the template arguments that is no index."""
    stated = (text for text in r.cpp.args if _cpp.dtype(text) not in (None, "bool", "i32", "u32"))
    dtype: str = r.read(next(stated, ""), "dtype")
    return dtype
