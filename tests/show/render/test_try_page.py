"""The answer of `try` for people."""

from __future__ import annotations

from msgspec.structs import replace

from foretrace.schema.documents.tries import (
    TriedBaseline,
    TriedBest,
    TriedFix,
    TriedGuess,
    TriedPatch,
    TryDocument,
)
from foretrace.show.render.terminal import drawn
from foretrace.show.render.try_page import page, parts

FUSED = TriedFix(
    "fused_optimizer",
    "fused optimizer",
    "kept",
    "AdamW(..., fused=True)",
    predicted_ns=3.4e6,
    median_ns=3.2e6,
    low_ns=3.1e6,
    high_ns=3.3e6,
    ratio=1.25,
    same=True,
    peak_bytes=81_000_000,
    cost_ns=5e9,
    break_even_steps=2_500,
    pairs=11,
)
CAST = TriedFix(
    "autocast",
    "bf16 autocast",
    "differs",
    "-",
    median_ns=2e6,
    low_ns=2e6,
    high_ns=2e6,
    ratio=2.0,
    same=False,
    why="3.2e-02 apart, noise 1.1e-03",
)
OTHERS = [
    TriedFix("compile", "torch.compile", "raised", "-", why="RuntimeError: no compiler"),
    TriedFix("tf32", "TF32 matmuls", "not tried", "-", why="predicted to bring nothing"),
    TriedFix("sdpa", "SDPA", "does not apply", "-", why="no Transformers model"),
]


def document(
    *fixes: TriedFix, script: str = "train.py", path: str = "train.patch", **more: object
) -> TryDocument:
    return TryDocument(
        script,
        "a GPU",
        "optimizer.step",
        TriedBaseline(4e6, 3.9e6, 4.1e6),
        list(fixes),
        TriedBest(["fused_optimizer"] if FUSED in fixes else [], 3.2e6, 1.25),
        TriedPatch(path, 1, "-a\n+b\n", 1.24, ["autocast"]),
        40,
        11,
        0.05,
        "2.11",
        **more,  # type: ignore[arg-type]
    )


def text(*fixes: TriedFix, **more: object) -> str:
    return drawn(page(document(*fixes, **more)))  # type: ignore[arg-type]


def test_the_first_lines_are_the_answer() -> None:
    lines = text(FUSED, CAST, *OTHERS, guess=TriedGuess("fused_optimizer", 2.0))
    assert "BASELINE    4.00 ms per step (3.90 ms to 4.10 ms)" in lines
    assert "BEST        3.20 ms (1.25x): fused optimizer" in lines
    assert "WRITE       AdamW(..., fused=True)" in lines
    assert "YOUR GUESS  fused optimizer, 2.00x; measured 1.25x" in lines
    assert len(lines.splitlines()) <= 25


def test_each_fix_says_what_became_of_it() -> None:
    lines = " ".join(text(FUSED, CAST, *OTHERS).split())
    assert "fused optimizer 3.40 ms 3.20 ms (1.25x) same 81.0 MB kept" in lines
    assert "bf16 autocast – 2.00 ms (2.00x) differ" in lines
    assert (
        "BREAK-EVEN fused optimizer: its first steps take 5.00 s longer, paid back after" in lines
    )
    assert "RAISED torch.compile: RuntimeError: no compiler" in lines
    assert "NOT TRIED TF32 matmuls (predicted to bring nothing)" in lines
    assert "NOT HERE SDPA (no Transformers model)" in lines
    assert (
        "PATCH train.patch (1 line), checked: applies, and runs at 3.23 ms in a process of its own;"
        " write by hand: autocast" in lines
    )


def test_nothing_that_pays_is_said() -> None:
    assert "BEST      the script as it is: no fix that was tried pays" in text(CAST)


def test_a_screen_lists_some_of_what_does_not_apply_and_a_page_all_of_it() -> None:
    apart = [replace(OTHERS[-1], title=f"fix {at}", why=f"reason {at}") for at in range(9)]
    apart.append(replace(apart[-1], title="fix 9"))
    lines = " ".join(text(FUSED, *apart).split())
    assert "fix 3 (reason 3); and 6 more (--json has each reason)" in lines
    assert "fix 4" not in lines
    whole = " ".join(drawn(parts(document(FUSED, *apart))).split())
    assert "fix 8, fix 9 (reason 8)" in whole
