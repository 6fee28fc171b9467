"""Tables as text, and patterns: each is read and compiled when a name first needs it.

Then what matrix-multiply names have in common: operand letters, MMA shapes, chip generations.
cuBLAS is column-major and PyTorch row-major, so PyTorch asks for the transposed matmul and swaps
the operands. For `out = X @ Y` the first letter therefore tells about Y (the weight) and the second
about X (the activation); the first tile number runs along the columns of the PyTorch result (output
features), the second along its rows (tokens).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

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
