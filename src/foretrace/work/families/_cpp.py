"""The text of kernel names: tables and patterns, and C++ names as profilers print them.

Each table is read and each pattern compiled when a name first needs it.

Then what matrix-multiply names have in common: operand letters, MMA shapes, chip generations.
cuBLAS is column-major and PyTorch row-major, so PyTorch asks for the transposed matmul and swaps
the operands. For `out = X @ Y` the first letter therefore tells about Y (the weight) and the second
about X (the activation); the first tile number runs along the columns of the PyTorch result (output
features), the second along its rows (tokens).

C++ names are read in one pass that never raises, cut names included.
Kineto writes `(anonymous namespace)`, `4`, `true`, `4ul`; nsys and ncu write `<unnamed>`, `(int)4`,
`(bool)1`, `(unsigned long)4`. Both read the same here. A name whose brackets do not close was cut
by a tool: `truncated`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from foretrace.work.kernel import KernelId


@cache
def rx(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled on first use: forty families must load in a few milliseconds."""
    return re.compile(pattern, re.ASCII)


def is_cut(name: str) -> bool:
    """Whether a report cut the name: it ends in dots."""
    return name.endswith(("...", "…"))


def uncut(name: str) -> str:
    """The name without the half word that a report left at its end (`…_ldg8_f2f_stages_6...`)."""
    return name.rstrip(".…").rpartition("_")[0] if is_cut(name) else name


def one_of(names: Sequence[str], number: int | None) -> str:
    """What a number of a template stands for; "" for one beyond the last."""
    return names[number] if number is not None and 0 <= number < len(names) else ""


def joined(*words: Any) -> str:
    """The words that are not empty, one blank apart."""
    return " ".join(str(word) for word in words if word not in ("", None))


@cache
def rows(table: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table, its cells two blanks apart, read on first use.

    `-` is an empty cell. A line that is indented further continues the row above it, and its last
    cell where it begins with `|`.
    """
    lines = (
        words(table).replace("\n        |", "|").replace("\n        ", "  ").strip().splitlines()
    )
    cells = (re.split(r" {2,}", line.strip()) for line in lines)
    return tuple(tuple("" if cell == "-" else cell for cell in row) for row in cells)


def row_for(table: str, text: str) -> tuple[str, ...] | None:
    """The first row whose pattern, its last cell, is the whole text; without the pattern."""
    if not _any_of(table).fullmatch(text):
        return None
    return next(row[:-1] for row in rows(table) if rx(row[-1]).fullmatch(text))


@cache
def _any_of(table: str) -> re.Pattern[str]:
    """One pattern for the rows of a table: most names are in none of them."""
    return rx("|".join(f"(?:{row[-1]})" for row in rows(table)))


@cache
def _every_table() -> dict[str, str]:
    files = (Path(__file__).with_name(name) for name in ("words.toml", "kernels.toml"))
    return {k: v for file in files for k, v in tomllib.loads(file.read_text("utf-8")).items()}


def words(table: str) -> str:
    """A table of `words.toml` or `kernels.toml`."""
    return _every_table()[table]


def word_set(text: str) -> frozenset[str]:
    """The words of a text: a long set, readable in few lines."""
    return frozenset(text.split())


@cache
def by_role(table: str) -> tuple[tuple[str, list[str]], ...]:
    """Role and words of each `role: word word …`; what is indented further goes on."""
    entries = rx(r"\n    (?=\w+: )").split(f"\n{words(table).rstrip()}")[1:]
    pairs = (" ".join(entry.split()).split(": ", 1) for entry in entries)
    return tuple((role, text.split()) for role, text in pairs)


def by_spelling(table: str) -> dict[str, str]:
    """Spelling to value, from a table of entries such as `f16 = __half, c10::Half`."""
    rows = (entry.split(" = ") for entry in words(table).strip().replace(";", "\n").splitlines())
    return {word: dtype.strip() for dtype, listed in rows for word in listed.split(", ")}


# Numbers are bounded: a name of ten thousand digits is not a tile.
PAIR = r"\d{1,5}x\d{1,5}"
TRIPLE = r"\d{1,5}x\d{1,5}x\d{1,5}"

# Words inside library names (cuBLAS, CUTLASS, xmma, MIOpen, Triton).
WORDS = by_spelling("library_types")
# The letter before `gemm` in the names of cuBLAS and CUTLASS.
ACCUMULATOR = by_spelling("accumulators")

MMA = {
    word.replace("x", ""): [int(number) for number in word.split("x")]
    for word in word_set("""
        8x8x4 16x8x8 16x8x16 8x8x16 16x8x32 8x8x32 16x8x64 16x16x16 32x8x16 8x32x16 16x8x4
        8x8x128 16x8x256
    """)
}
ABILITIES = word_set("bias relu gelu aux drelu dgelu bgrada bgradb")
ARCH = {"volta": "sm70", "turing": "sm75", "ampere": "sm80"}
# `fprop` and its kin, as cuDNN and CUTLASS call the passes of a convolution.
CONVOLUTIONS = by_spelling("convolutions")
GENERATION = by_spelling("generations")
# What a generation brought that kernels written for an older one cannot use.
BROUGHT = {
    75: "int8 tensor cores",
    80: "asynchronous copies, bf16 and TF32 tensor cores",
    89: "fp8 tensor cores",
    90: "warp-group MMA, TMA, thread-block clusters",
    100: "tensor memory, two-block MMA, fp4",
}
_SIDE = by_spelling("sides")
_HABIT = by_spelling("habits")


def arch_meaning(arch: str) -> str:
    return f"written for {_named(arch)}; it may run on a newer card"


def layout_meaning(letters: str) -> str:
    """The letters in PyTorch's terms: the first is the weight, the second the activation."""
    low = letters[:2].lower()
    first, second = _SIDE.get(low[:1], "?"), _SIDE.get(low[1:2], "?")
    habit = f": {_HABIT[low]}" if low in _HABIT else ""
    weight = f"first letter, the weight (second operand of X @ Y): {first}"
    return f"{weight}; second letter, X: {second}{habit}"


def on_card(kernel: KernelId, arch: str) -> str:
    """One sentence: was the kernel written for this card (`sm_90`, `gfx942`)?"""
    stated = kernel.fields.get("arch")
    card = arch.replace("_", "").lower()
    if not isinstance(stated, str):
        return "the name states no chip generation"
    ours, theirs = _number(stated), _number(card)
    if ours is None or theirs is None:
        other = f"not for {_named(card)}"
        return f"written for {_named(stated)}, {'this card' if stated == card else other}"
    if ours == theirs:
        return f"written for {_named(stated)}, this card's own generation"
    if ours > theirs:
        return f"written for {_named(stated)}, newer than {_named(card)}: it cannot have run there"
    missed = [words for number, words in BROUGHT.items() if ours < number <= theirs]
    tail = f"; it uses nothing that came later ({'; '.join(missed)})" if missed else ""
    return f"written for {_named(stated)}, older than {_named(card)}{tail}"


def _number(arch: str) -> int | None:
    found = rx(r"sm(\d{2,3})[a-z]?").fullmatch(arch)
    return int(found[1]) if found else None


def _named(arch: str) -> str:
    plain = rx(r"(?<=\d)[abf]$").sub("", arch) if arch.startswith("sm") else arch
    generation = GENERATION.get(plain)
    return f"{arch} ({generation})" if generation else arch


_BRACKETS = r"[<>(){}]"
_PAIRS = {")": "(", "}": "{"}
# Names that stayed mangled: Kineto leaves those beyond 8192 characters so, and those that the
# demangler does not know, such as the type `DF16b`. Only identifiers and simple types are read.
_LITERAL = r"L[a-z]n?\d{1,18}E"
_SUBSTITUTE = r"S[0-9A-Z]{0,6}_|S[tabsiod]"
_NAMED = by_spelling("named_types")

# How C++ spells each data type, and the one word used here for it.
TYPES = by_spelling("cpp_types")
# Itanium-mangled built-in types.
MANGLED = by_spelling("mangled_types")


class Cpp(Struct, frozen=True):
    """`void a::f<4, float>(int)`: scope `a`, base `f`, args `4` and `float`, params `(int)`."""

    scope: str
    base: str
    args: tuple[str, ...]
    params: str
    truncated: bool

    def arg(self, index: int) -> str:
        """The template argument at this place, or ""."""
        return nth(self.args, index)


def nth(args: Sequence[str], index: int) -> str:
    """The argument at this place, or "" where there are fewer."""
    return args[index] if index < len(args) else ""


@lru_cache(maxsize=256)
def parse(name: str) -> Cpp:
    """Read one name. A plain identifier is a base without scope and arguments."""
    cut = is_cut(name)
    text = without_anonymous(name).rstrip(".…") if cut else without_anonymous(name)
    start, opened, closed, params = 0, -1, -1, len(text)
    position, truncated = 0, False
    while found := rx(r"[<({ ]").search(text, position):
        at, mark = found.start(), found.group()
        if mark == " ":
            start, opened = at + 1, -1
            position = at + 1
            continue
        if mark == "(" and not text[max(at - 8, 0) : at].endswith("operator"):
            params = at
            truncated = truncated or _close(text, at) == len(text)
            break
        end = _close(text, at)
        truncated = truncated or end == len(text)
        if mark == "<":
            opened, closed = at, end
        position = end + 1
    head = text[start : opened if opened >= 0 else params].rstrip()
    scope, _, base = head.rpartition("::")
    base = base if opened >= 0 or params < len(text) or not cut else ""  # it was cut
    args = _whole(split(text[opened + 1 : closed]), closed == len(text)) if opened >= 0 else ()
    return Cpp(scope, base, args, text[params:], truncated or cut)


def without_anonymous(text: str) -> str:
    """The text with anonymous namespaces taken out: they say nothing and their brackets mislead."""
    for word in ("(anonymous namespace)", "<unnamed>", "(anonymous)"):
        if word in text:
            text = text.replace(word + "::", "")
    return text


def split(text: str) -> tuple[str, ...]:
    """The comma-separated arguments of a template's inside, brackets respected."""
    pieces, begin, position = [], 0, 0
    while found := rx(r"[<({,]").search(text, position):
        at = found.start()
        if found.group() == ",":
            pieces.append(text[begin:at].strip())
            begin = position = at + 1
        else:
            position = _close(text, at) + 1
    last = text[begin:].strip()
    return (*pieces, last) if last else tuple(pieces)


def inside(text: str, template: str) -> tuple[str, ...]:
    """The arguments of the first `template<…>` in the text, or none."""
    at = text.find(template + "<")
    if at < 0:
        return ()
    opened = at + len(template)
    closed = _close(text, opened)
    return _whole(split(text[opened + 1 : closed]), closed == len(text))


def _whole(args: tuple[str, ...], cut: bool) -> tuple[str, ...]:
    """The arguments, less the last where the name was cut inside it: `1` may have been `128`."""
    last = args[-1] if args else ""
    half = cut and (integer(last) is not None or not rx(_BRACKETS).search(last))
    return args[:-1] if half else args


def leaf(text: str) -> str:
    """`at::native::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}…` -> `silu_kernel`."""
    text = without_anonymous(text)
    found = rx(r"[<({\[ ]").search(text)
    return (text[: found.start()] if found else text).rpartition("::")[2]


def integer(text: str) -> int | None:
    """`4`, `4ul`, `(int)4` -> 4."""
    found = rx(r"(?:\([a-z ]+\))?(-?\d{1,18})[uUlL]*").fullmatch(text)
    return int(found.group(1)) if found else None


def boolean(text: str) -> bool | None:
    """`true`, `(bool)1` -> True."""
    return {"true": True, "(bool)1": True, "false": False, "(bool)0": False}.get(text)


@lru_cache(maxsize=4096)
def dtype(text: str) -> str | None:
    """The type behind a C++ spelling, pointers and `const` ignored; None for anything else."""
    plain = rx(r"\bconst\b|[*&]").sub("", text).strip() if len(text) < 80 else ""
    return TYPES.get(plain)


def _close(text: str, opened: int) -> int:
    """Where the bracket at `opened` closes: at the end of a cut name. `(8)>(0)` closes nothing."""
    stack: list[str] = []
    for found in rx(_BRACKETS).finditer(text, opened):
        mark = found.group()
        if mark in "<({":
            stack.append(mark)
        elif mark == ">":
            if stack[-1] == "<" and text[found.start() - 1] != "-":
                stack.pop()
        else:
            while stack and stack.pop() != _PAIRS[mark]:
                pass
        if not stack:
            return found.start()
    return len(text)


def is_mangled(name: str) -> bool:
    return name.startswith("_Z")


@lru_cache(maxsize=64)
def identifiers(name: str) -> tuple[str, ...]:
    """The identifiers in order, without substitutions, anonymous namespaces and literals."""
    name = name.rstrip(".…")
    found: list[str] = []
    position, in_enum = 2, False
    while position < len(name):
        if in_enum and (value := rx(r"En?\d{1,10}E").match(name, position)):
            position, in_enum = value.end(), False
        elif skipped := rx(f"{_LITERAL}|{_SUBSTITUTE}").match(name, position):
            position = skipped.end()
        elif opened := rx(r"L(?=[NSZ\d])").match(name, position):
            position, in_enum = opened.end() or position + 1, True
        elif length := rx(r"(\d{1,4})(?=[A-Za-z_])").match(name, position):
            end = length.end() + int(length[1])
            if end <= len(name):  # the rest was cut
                found.append(name[length.end() : end])
            position = end
        else:
            following = rx(r"[0-9ELS]").search(name, position + 1)  # nothing else begins a piece
            position = following.start() if following else len(name)
    return tuple(word for word in found if not word.startswith("_GLOBAL__N_"))


def type_after(name: str, identifier: str) -> str | None:
    """The first template argument of `identifier`, if it is a data type."""
    rest = _arguments(name, identifier)
    found = rx(r"DF16b|DF16_|Dh|[fdilxsahbjmy]").match(rest)
    if found:
        return MANGLED[found[0]]
    word = next(iter(identifiers("_Z" + rest.removeprefix("N3c10")[:40])), "")
    return _NAMED.get(word)


def numbers_after(name: str, identifier: str) -> list[int]:
    """The integers that are the first template arguments: `MetadataILi4EE` -> [4]."""
    found = rx(r"(?:Li\d{1,9}E)+").match(_arguments(name, identifier))
    return [int(number) for number in rx(r"\d+").findall(found[0])] if found else []


def _arguments(name: str, identifier: str) -> str:
    mark = f"{len(identifier)}{identifier}I"
    at = name.find(mark)
    return name[at + len(mark) :] if at >= 0 else ""
