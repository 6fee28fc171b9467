"""Two results of `foretrace try`: what counts as lost, and what is noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.base.tables import encode
from foretrace.cli import main
from foretrace.compare.fail_if import condition as read_condition
from foretrace.compare.fail_if import of_tries
from foretrace.compare.tries import compare_tries
from foretrace.read.recordings import traces
from foretrace.read.tried import TriedBaseline, TriedBest, TriedFix, TriedPatch, TryDocument


def document(*fixes: TriedFix) -> TryDocument:
    baseline, best = TriedBaseline(4e6, 3.9e6, 4.1e6), TriedBest([], 3.2e6, 1.25)
    patch = TriedPatch("train.patch", 1, "-a\n+b\n", 1.24, ["autocast"])
    step = "a GPU", "optimizer.step"
    return TryDocument("train.py", *step, baseline, list(fixes), best, patch, 40, 11, 0.05, "2.11")


def fix(state: str, ratio: float | None = None, width: float = 0.02, **more: object) -> TriedFix:
    same = {"kept": True, "no gain": True, "differs": False}.get(state)
    row = TriedFix("compile", "torch.compile", state, "-", ratio=ratio, same=same, **more)  # type: ignore[arg-type]
    if ratio is None:
        return row
    times = [4e6 / each for each in (ratio, ratio + width, ratio - width)]
    return replace(row, median_ns=times[0], low_ns=times[1], high_ns=times[2])


NOT_TRIED = fix("not tried", why="predicted to bring nothing")
FAILED = fix("raised", why="RuntimeError: no compiler")


@pytest.mark.parametrize(
    ("a", "b", "answer", "text"),
    [
        (fix("kept", 1.35), fix("no gain", 1.02), "lost", "torch.compile was 1.35x, is 1.02x"),
        (fix("no gain", 1.0), fix("kept", 1.2), "gained", "torch.compile was 1.00x, is 1.20x"),
        (fix("kept", 1.5), fix("kept", 1.2), "less", "torch.compile was 1.50x, is 1.20x"),
        (fix("no gain", 0.8), fix("no gain", 0.99), "more", "torch.compile was 0.80x, is 0.99x"),
        # a small gain that is one no more, with intervals that overlap, is noise
        (fix("kept", 1.03), fix("no gain", 1.01), "same", "torch.compile was 1.03x, is 1.01x"),
        (
            fix("kept", 1.35),
            fix("differs", 1.35),
            "lost",
            "torch.compile was 1.35x, is 1.35x with other results",
        ),
        (
            fix("kept", 1.35),
            fix("raised", 1.35),
            "lost",
            "torch.compile was 1.35x, is 1.35x until it raised",
        ),
        (
            fix("kept", 1.35),
            FAILED,
            "lost",
            "torch.compile: 1.35x in A, raised (RuntimeError: no compiler) in B",
        ),
        (
            fix("kept", 1.35),
            NOT_TRIED,
            "not compared",
            "torch.compile: 1.35x in A, not tried (predicted to bring nothing) in B",
        ),
        (
            FAILED,
            FAILED,
            "not compared",
            "torch.compile: raised (RuntimeError: no compiler) in A, "
            "raised (RuntimeError: no compiler) in B",
        ),
    ],
)
def test_what_became_of_a_fix(a: TriedFix, b: TriedFix, answer: str, text: str) -> None:
    [found] = compare_tries(document(a), document(b)).fixes
    assert (found.answer, found.text) == (answer, f"{text}: {answer}")


def test_on_top_of_others_a_fix_is_another_one() -> None:
    top = fix("kept", 1.2, base=["fused_optimizer"])
    found = compare_tries(document(fix("kept", 1.5), top), document(top)).fixes
    assert [(each.base, each.answer) for each in found] == [(["fused_optimizer"], "same")]


def moved(ratio: float, **more: str) -> TryDocument:
    found = document(fix("kept", 1.35))
    return replace(
        found, baseline=replace(found.baseline, median_ns=ratio * 4e6), **more  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("b", "answer", "text"),
    [
        (moved(1.03), "inconclusive", "untouched 4.00 to 4.12 ms per step (1.03x; noise 5.0%), "),
        (moved(1.5), "slower", "untouched 4.00 to 6.00 ms per step (1.50x; noise 5.0%)"),
        (moved(0.5), "faster", "untouched 4.00 to 2.00 ms per step (0.50x; noise 5.0%)"),
        (moved(0.5, device="a CPU"), "different", "two machines: a GPU in A, a CPU in B; "),
        (moved(1, script="b.py"), "different", "two scripts: train.py in A, b.py in B; "),
        (moved(1, found_by="loader"), "different", "two kinds of steps: optimizer.step in A, "),
        (moved(1, script="/other/train.py"), "inconclusive", "untouched 4.00 to 4.00 ms"),
    ],
)
def test_the_untouched_script(b: TryDocument, answer: str, text: str) -> None:
    verdict = compare_tries(moved(1), b).verdict
    assert verdict.answer == answer
    assert verdict.text.startswith(text)


@pytest.mark.parametrize(
    ("condition", "met", "text"),
    [
        ("lost > 0", True, "measured 1"),
        ("untouched > 1.05 * a.untouched", True, "measured 6.00 ms, 4.20 ms"),
        ("best > 4 ms", False, "measured 3.20 ms"),
    ],
)
def test_a_condition_on_two_tries(condition: str, met: bool, text: str) -> None:
    b = replace(moved(1.5), fixes=[fix("no gain", 1.0)])
    (outcome,) = of_tries([read_condition(condition, "tries")], compare_tries(moved(1), b))
    assert (outcome.met, outcome.text) == (met, text)


def test_the_command_fails_where_a_fix_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / f"{name}.json") for name in "ab"]
    for path, row in zip(paths, (fix("kept", 1.35), fix("no gain", 1.0)), strict=True):
        Path(path).write_text(encode(document(row)))
    assert main(["compare", *paths, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fixes"][0]["answer"] == "lost"
    assert main(["compare", *paths, "--fail-if", "lost > 0"]) == 1
    assert "FAIL  lost > 0: measured 1" in capsys.readouterr().err
    mlp = str(traces()["mlp_eager"])
    for wrong in ([paths[0], mlp], [*paths, mlp], [*paths, "--region", "x"]):
        assert main(["compare", *wrong]) == 2
        assert "a try is compared with one other try" in capsys.readouterr().err
