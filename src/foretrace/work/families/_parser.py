"""A kernel name while it is being read: the fields found so far, and the text that states each.

A family is a function that reads such a name, and the patterns that a name must fit before it does
(`family`). A field means the same in every family: `words.toml` says how its text is read and what
it means, and a family adds what differs. What most families need can be imported from here.

ATen's ops have roles by their words: the op behind a functor, or behind a fused kernel's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, wraps
from operator import itemgetter
from typing import Any

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import (
    ABILITIES,
    ACCUMULATOR,
    MMA,
    WORDS,
    arch_meaning,
    by_role,
    is_cut,
    joined,
    layout_meaning,
    row_for,
    rows,
    rx,
    uncut,
    word_set,
    words,
)
from foretrace.work.kernel import Family, KernelId, Part

SHORT_LIMIT = 48  # a short name must fit a column of a terminal table
_PLAIN = str.maketrans("", "", "_:<|")


@cache
def _fields() -> dict[str, tuple[str, ...]]:
    return {field: rest for field, *rest in rows("fields")}  # type: ignore[misc]


def number(text: str) -> int | None:
    """`4`, `4ul`, `(int)4`, `stage4` -> 4."""
    found = rx(r"(?:\([a-z ]+\)|[A-Za-z_]{0,16})(-?\d{1,18})[uUlL]*").fullmatch(text)
    return int(found[1]) if found else None


def shape(text: str) -> list[int]:
    """`128x256`, `tilesize128x256` -> [128, 256]."""
    found = rx(r"\d{1,5}(?:x\d{1,5}){0,3}").search(text)
    return [int(size) for size in found[0].split("x")] if found else []


# How a table says that a text is read.
_READ: dict[str, Callable[[str], Any]] = {
    "text": str,
    "number": number,
    "shape": shape,
    "flag": lambda text: _cpp.boolean(text) if _cpp.boolean(text) is not None else True,
    "type": lambda text: _cpp.dtype(text) or WORDS.get(text),
}


class NameParser:
    """Collects fields and parts, in any order: parts are sorted by place at the end.

    A text of "" stands for what the name says by leaving a word out (no `splitK`: not split over
    K). `certainty` is that of every statement which does not give its own. `found` is what the
    family's pattern matched: `r["tile"]` is the text of a group.
    """

    conv = False  # a convolution computed as a matmul: its rows are pixels and filters, not tokens

    def __init__(
        self, name: str, family: str, certainty: str = "inferred", found: Any = None
    ) -> None:
        self.name, self.family, self.certainty, self.found = name, family, certainty, found
        self.fields: dict[str, Any] = {}
        self._parts: list[tuple[int, int, Part]] = []
        self._start = self._end = 0

    def __getitem__(self, group: str | int) -> str:
        return (self.found[group] or "") if isinstance(self.found, re.Match) else ""

    @property
    def cpp(self) -> _cpp.Cpp:
        """The name as C++."""
        return _cpp.parse(self.name)

    @property
    def base(self) -> str:
        """The function of a C++ name."""
        return self.cpp.base

    def arg(self, place: int) -> str:
        """The template argument at this place, or ""."""
        return self.cpp.arg(place)

    def row(self, table: str) -> tuple[str, ...] | None:
        """The row of a table whose pattern is the function."""
        return row_for(table, self.base)

    def get(self, field: str) -> Any:
        """The field, or "" where nothing stated it yet."""
        return self.fields.get(field, "")

    def put(
        self, text: str, field: str, value: Any, meaning: str = "", certainty: str = ""
    ) -> None:
        """State a field, the text that says so, and its meaning; `{}` there stands for the value.

        A value of "" or None states nothing.
        """
        if value in ("", None):
            return
        meaning = meaning or _fields()[field][1]
        if " | " in meaning:
            meaning = meaning.split(" | ")[not value]
        # a list that grows word by word must not be written out at each of them
        meaning = meaning.replace("{}", str(value)) if "{}" in meaning else meaning
        self.state(text, field, value, meaning, certainty)

    def state(self, text: str, field: str, value: Any, meaning: str, certainty: str = "") -> None:
        """State a field even where its value is None: the name says that it has no value."""
        self.fields[field] = value
        self._add(text, field, meaning, certainty or self.certainty)

    def read(self, text: str, field: str, meaning: str = "", certainty: str = "") -> Any:
        """State a field as its text says it; returns the value, or "" where it says none."""
        value = _READ[_fields().get(field, ("text",))[0]](text) if text else None
        self.put(text, field, value, meaning, certainty)
        return "" if value is None else value

    def read_all(self, texts: Iterable[str], fields: str, certainty: str = "") -> None:
        """State one field after the other as the texts say them; `-` passes one over."""
        for text, field in zip(texts, fields.split(), strict=False):
            if field != "-":
                self.read(text, field, certainty=certainty)

    def groups(self, fields: str, certainty: str = "") -> None:
        """State the groups of the pattern that are called as their fields."""
        self.read_all([self[field] for field in fields.split()], fields, certainty)

    def flags(
        self, texts: Iterable[str], template: str, otherwise: str = "", **meanings: str
    ) -> None:
        """State the flags of a template in their order, those that are off too.

        Which they are, their number tells; `otherwise` for a number that is not known.
        """
        flags = [text for text in texts if _cpp.boolean(text) is not None]
        row = row_for("flags", f"{template} {len(flags)}")
        for text, field in zip(flags, (row[0] if row else otherwise).split(), strict=False):
            meaning = meanings.get(field) or _fields()[field][1]
            self.put(text, field, _cpp.boolean(text), f"{meaning} | not: {meaning}")

    def put_word(self, word: str, table: str) -> bool:
        """State what a word says: rows of field, kind, certainty, meaning, pattern of the word."""
        for field, kind, certainty, meaning, pattern in rows(table):
            if found := rx(pattern).fullmatch(word):
                value = _READ[kind](found[found.lastindex or 0])
                self.put(word, field, value, meaning, certainty)
                return True
        return False

    def put_arch(self, text: str, certainty: str = "") -> None:
        """The chip generation that the name states (`sm90`, `Sm90`, `90`), if it states one."""
        arch = f"sm{text}" if text.isdigit() else text.lower()
        self.put(text, "arch", arch, arch_meaning(arch), certainty)

    def put_layout(self, text: str, letters: str = "", certainty: str = "") -> None:
        """The operand letters, and what they say in PyTorch's terms.

        Which tensor of a convolution each of them is, is not public.
        """
        letters = letters or text
        meaning = layout_meaning(letters)
        if self.conv:
            meaning = "operand letters of the matmul that stands for the convolution"
            certainty = certainty or "unknown"
        self.put(text, "layout", letters, meaning, certainty)

    def put_tile(
        self,
        text: str,
        certainty: str = "",
        tile: list[int] | None = None,
        field: str = "tile",
        row_major: bool = False,
    ) -> None:
        """A block tile of two or three numbers: output features, tokens, depth.

        A library that is row-major, as PyTorch is, writes tokens first.
        """
        sizes = tile or shape(text)
        sides = ["output features", "rows (tokens)"][:: -1 if row_major else 1]
        words = " x ".join(f"{size} {side}" for size, side in zip(sizes[:2], sides, strict=True))
        if self.conv:
            words = f"{sizes[0]} x {sizes[1]} elements of the matmul that stands for it"
        deep = f", {sizes[2]} deep along K per step" if len(sizes) > 2 else ""
        self.put(text, field, sizes, f"one block computes {words}{deep}", certainty)

    def put_pair(self, text: str) -> None:
        """`128x64`, then `64x3`: the tile, then the depth of a slice of K and those in flight."""
        first, second = shape(text)
        if "tile_mn" not in self.fields:
            self.put_tile(text, field="tile_mn")
            return
        self.put(text, "tile_k", first, "each step takes a slice of {} along K")
        self.put(text, "stages", second, "{} slices in flight (pipeline stages)")
        self.put_tile(text, tile=[*self.fields["tile_mn"], first])

    def put_core(self) -> None:
        """`bf16_s16816gemm`: type of the result, accumulator and MMA shape."""
        acc, core = ACCUMULATOR[self["acc"]], self["core"]
        self.put(self["out"] or core, "dtype_out", WORDS.get(self["out"], acc))
        self.put(core, "dtype_acc", acc)
        self.put(core, "mma", MMA.get(self["mma"]))

    def put_abilities(self, tokens: str) -> None:
        """`bias_f32_relu`: what a kernel of cuBLAS can do at the end; none of it need have run."""
        able = [f"{word}-capable" for word in tokens.split("_") if word in ABILITIES]
        words = "what the kernel can apply at the end; not proof that it was applied"
        self.put(tokens, "epilogue", able or "", words, "inferred")
        if bias := rx(r"(?:^|_)bias_([a-z]+\d+)(?:_|$)").search(tokens):
            self.put(tokens, "dtype_bias", WORDS.get(bias[1]), certainty="inferred")

    def put_relu(self, text: str, certainty: str = "") -> None:
        """The word `relu`: the kernel can apply one; the name does not say that it did."""
        words = "this kernel can apply bias and ReLU at the end; it does not prove that a ReLU ran"
        self.put(text, "epilogue", ["relu-capable"], words, certainty)

    def put_cut(self) -> None:
        """Say that a bracket stays open."""
        if self.cpp.truncated:
            words = "a bracket does not close: the name was cut"
            self.put("", "truncated", True, words, "checked")

    def note(self, text: str, meaning: str, certainty: str = "") -> None:
        """Explain a text that fills no field."""
        self._add(text, "", meaning, certainty or self.certainty)

    def done(self, role: str, short: str, *more: Any) -> KernelId:
        """The finished kernel. `{tile}` in the short name stands for that field.

        Text that no part covers gets a part too: parts cover the name.
        """
        if is_cut(self.name):
            self.put("", "truncated", True, "the name was cut: it ends in dots", "checked")
        filled = rx(r"\{(\w+)\}").sub(lambda found: _shown(self.get(found[1])), short)
        short = joined(*filled.split(), *more).strip() or self.family
        short = short if len(short) <= SHORT_LIMIT else short[: SHORT_LIMIT - 1] + "…"
        return KernelId(self.name, short, self.family, role, self.fields, tuple(self._covered()))

    def _add(self, text: str, field: str, meaning: str, certainty: str) -> None:
        # several fields may share one text
        if text and text != self.name[self._start : self._end]:
            found = self.name.find(text, self._end)
            found = found if found >= 0 else self.name.find(text)
            text = text if found >= 0 else ""  # spelt another way, as types are in a mangled name
            self._start = max(found, 0) if text else self._start
        if text:
            self._end = self._start + len(text)
        start = self._start if text else self._end
        self._parts.append((start, self._end, Part(text, field, meaning, certainty)))

    def _covered(self) -> list[Part]:
        parts: list[Part] = []
        reached = 0
        for start, end, part in sorted(self._parts, key=itemgetter(0)):
            if start > reached:
                parts += self._gap(reached, start)
            parts.append(part)
            reached = max(reached, end)
        return parts + self._gap(reached, len(self.name))

    def _gap(self, start: int, end: int) -> list[Part]:
        text = self.name[start:end].strip("_ ,>")
        if not text.strip("_ ,<>:&*(){}[]#"):
            return []
        if end == len(self.name) and text.startswith("("):
            meaning, certainty = "the argument list: repeats the types of the template", "checked"
        elif "::" in text or text == "void":
            meaning, certainty = "C++ return type, namespaces and templates around it", "documented"
        else:
            meaning, certainty = "nothing is known about this piece", "unknown"
        return [Part(text, "", meaning, certainty)]


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ("x" if all(isinstance(item, int) for item in value) else " ").join(map(str, value))


def family(
    name: str,
    order: int,
    states: str,
    certainty: str = "inferred",
    *,
    hint: str,
    head: str = "",
    base: str = "",
) -> Callable[[Callable[[NameParser], KernelId | None]], Family]:
    """Make a family of a function that reads its names, and answers None where one is not its own.

    A name has a `hint` near its beginning, or at it where the pattern begins with `^`. It begins
    with a `head`, the half word at the end of a cut name aside. `base` is its whole C++ function.
    """
    plain = hint.split("|") if hint.translate(_PLAIN).isalnum() else []

    def declare(decode: Callable[[NameParser], KernelId | None]) -> Family:
        def fit(text: str, found: Any) -> KernelId | None:
            if head:
                found = rx(head).match(uncut(text))
            if base:
                found = rx(base).fullmatch(_cpp.parse(text).base)
            return decode(NameParser(text, name, certainty, found)) if found else None

        # most names have no word of this family: that must cost next to nothing
        def by_words(text: str) -> KernelId | None:
            for word in plain:
                if text.find(word, 0, 300) >= 0:
                    return fit(text, True)
            return None

        def by_pattern(text: str) -> KernelId | None:
            found = rx(hint).match(text) if hint[0] == "^" else rx(hint).search(text, 0, 300)
            return fit(text, found) if found else None

        chosen = wraps(decode)(by_words if plain else by_pattern)
        return Family(name, chosen, order, word_set(states))

    return declare


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
        return role_by_words(name)
    known, plain = _role_by_op(), name.removesuffix("_out").rstrip("_")
    stem = plain.partition("_backward")[0]
    return known.get(plain) or known.get(stem) or known.get(f"_{stem}") or role_by_words(name)


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
def role_by_words(name: str) -> str:
    """The role that the words of a function's name suggest, or `other`."""
    text = f"_{'_'.join(rx(_SPLIT).findall(name[:400])).lower()}_"
    table = by_role("role_words")
    return next((role for role, marks in table if any(mark in text for mark in marks)), "other")


def plain_kernel(name: str) -> str:
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
    readable, r.certainty = plain_kernel(r.base), "inferred"
    r.note(r.base, f"the name is literal: {readable}")
    r.put(r.cpp.scope.split("::")[0] or r.base, "lib", lib)
    known = role_by_words(r.base)
    known = known if known != "other" else role_by_words(f"{r.cpp.scope}_{r.base}")
    return r.done(known, "", readable, first_type(r))


def first_type(r: NameParser) -> str:
    """State the first type among the template arguments that is no index."""
    stated = (text for text in r.cpp.args if _cpp.dtype(text) not in (None, "bool", "i32", "u32"))
    dtype: str = r.read(next(stated, ""), "dtype")
    return dtype
