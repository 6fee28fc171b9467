"""The documents of `shapes` and `worth` as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foretrace.base.errors import MissingError, UsageError
from foretrace.schema.documents.shapes import ShapesDocument
from foretrace.schema.documents.worth import WorthDocument
from foretrace.show.render.experiments import (
    need_matplotlib,
    plot_shapes,
    shapes_markdown,
    shapes_text,
    short_reason,
    worth_markdown,
    worth_text,
)


def visit(stall: float, wall: float, ratio: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "first_call_ns": int(stall + wall),
        "stall_ns": stall,
        "compile_s": 0.0,
        "graphs": 0,
        "recompiles": [],
        "gave_up": [],
        "compiled": None,
        "wall_ns": wall,
        "wall_spread_ns": 1.0,
        "host_ns": wall,
        "gpu_ns": None,
        "against_first": {"ratio": ratio, "noise": 0.02, "beyond": abs(ratio - 1) > 0.02},
        **more,
    }


def shapes_document(**more: Any) -> ShapesDocument:
    static = [
        visit(2e9, 80_000, 0.8, graphs=1, compiled=True),
        visit(3e6, 101_000, 1.01, compiled=False, gave_up=["Dynamo recompile limit exceeded"]),
    ]
    dynamic = [
        visit(2e9, 90_000, 0.9, graphs=1, compiled=True),
        visit(
            1e9,
            90_000,
            0.9,
            graphs=1,
            compiled=True,
            recompiles=[
                "0/0: tensor 'x|' size mismatch. Guard failed on a "
                "parameter, consider using something."
            ],
        ),
    ]
    entries = {
        "eager": [visit(0, 100_000), visit(5e3, 100_000)],
        "static": static,
        "dynamic": dynamic,
    }
    contenders = [
        {
            "name": name,
            "what": name,
            "graphs": sum(one["graphs"] for one in visits),
            "recompiles": sum(len(one["recompiles"]) for one in visits),
            "stall_ns": sum(one["stall_ns"] for one in visits),
            "visits": visits,
        }
        for name, visits in entries.items()
    ]
    made = {
        "schema": 1,
        "rung": "mlp",
        "first": "eager",
        "device": "CPU (x86_64)",
        "torch": "2.13.0",
        "dtype": "fp32",
        "shapes": [{"batch": 4, "seq": 8}, {"batch": 8, "seq": 8}],
        "fixed": {"dim": 16, "backward": False},
        "compiler_cache": "empty",
        "compiler_start_ns": 5_000_000_000,
        "recompile_limit": 8,
        "contenders": contenders,
        "left_out": [{"name": "liger", "why": "needs a GPU"}],
        **more,
    }
    return msgspec.convert(made, ShapesDocument)


def test_the_page_says_order_cache_stalls_times_limit_and_reasons() -> None:
    text = shapes_text(shapes_document(), every=True)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "mlp, 2 shapes: CPU (x86_64), torch 2.13.0, fp32"
    assert "in this order and starts with nothing compiled and an empty" in text
    assert "Fixed sizes: dim 16." in text
    assert "No time below includes the start of the compiler (5.00 s)." in text
    assert "static 1 0 2.00 s 90.5 us static" in lines
    assert "4x8 none 2.00 s 2.00 s" in lines
    assert "8x8 5.00 us 3.00 ms 1.00 s" in lines
    assert "8x8 100 us 101 us* 90.0 us" in lines
    assert "* runs eagerly: Dynamo gave up" in lines
    assert "8x8 same same 0.90x" in lines
    assert "Dynamo gave up on static (Dynamo recompile limit exceeded;" in text
    assert "dynamic at 8x8" in lines
    assert "tensor 'x|' size mismatch" in lines
    assert "liger: needs a GPU" in lines
    assert max(len(line) for line in text.splitlines()) <= 100


def test_markdown_has_the_same_tables_escaped() -> None:
    text = shapes_markdown(shapes_document())
    assert "| batch x seq | eager | static | dynamic |" in text
    assert "- **dynamic at 8x8** tensor 'x\\|' size mismatch" in text


def test_what_was_not_there_is_not_said() -> None:
    quiet = shapes_document(
        left_out=[], compiler_start_ns=None, compiler_cache="kept", contenders=[]
    )
    text = shapes_text(quiet, every=True)
    assert "which hides stalls" in text
    assert "Left out" not in text
    assert "gave up" not in text


def test_a_reason_loses_its_number_and_its_advice() -> None:
    assert short_reason("1/12: size: 4") == "size: 4"
    assert short_reason("0/0: n == 4       # x = f(n)") == "n == 4 # x = f(n)"
    assert short_reason("Cannot: tell") == "Cannot: tell"


def test_the_plot_needs_matplotlib_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(MissingError, match=r"pip install 'foretrace\[bench\]'"):
        need_matplotlib(tmp_path / "a.svg")


def test_a_plot_is_drawn_and_a_wrong_name_is_refused_before_the_work(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot_shapes(shapes_document(), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for wrong in (tmp_path / "a.txt", tmp_path / "none" / "a.svg"):
        with pytest.raises(UsageError):
            need_matplotlib(wrong)


def both(a: float | None, b: float | None) -> dict[str, Any]:
    return {"a": a, "b": b, "ratio": b / a if a and b else None, "noise": 0.01 if a else None}


def mode(name: str, **more: Any) -> dict[str, Any]:
    shape = {
        "shape": "8|128",
        "first_call_ns": 1_000_000_000,
        "stall_ns": 1e9,
        "compile_s": 0.9,
        "graphs": 1,
        "recompiles": ["0/0: size"],
        "gave_up": [],
        "compiled": True,
        "wall_ns": both(200_000, 100_000),
    }
    return {
        "mode": name,
        "state": "worth",
        "text": f"{name} is fine.",
        "failed": None,
        "saves_ns_per_call": 100_000,
        "cost_s": 9000.0,
        "break_even_calls": 20_000,
        "wall_ns": both(200_000, 100_000),
        "host_ns": both(150_000, 90_000),
        "gpu_ns": both(None, None),
        "compile_s": 1.9,
        "graphs": 2,
        "graph_breaks": {"print": 2},
        "recompiles": 1,
        "kernels": None,
        "changed": ["Fused."],
        "unchanged": ["Same."],
        "shapes": [shape, shape],
        **more,
    }


def worth_document(*modes: dict[str, Any], **more: Any) -> WorthDocument:
    made = {
        "schema": 1,
        "subject": "bench:setup",
        "device": "CPU (x86_64)",
        "torch": "2.13.0",
        "dtype": None,
        "shapes": ["8|128", "16|128"],
        "compiler_cache": "empty",
        "compiler_start_ns": 5_000_000_000,
        "recompile_limit": 8,
        "verdict": {"mode": "default", "state": "worth", "text": "Worth it."},
        "modes": list(modes),
        "notes": ["A note."],
        **more,
    }
    return msgspec.convert(made, WorthDocument)


def spaced(line: str) -> str:
    return " ".join(line.split())


def test_the_screen_holds_25_lines_however_much_changed() -> None:
    """The state is said once."""
    verdict = {"mode": "default", "state": "not worth", "text": "Not worth it: slower."}
    found = worth_document(mode("default", changed=["A change."] * 40), verdict=verdict)
    screen = worth_text(found, width=80).splitlines()
    assert len(screen) == 25
    assert screen[1] == "NOT WORTH IT  slower."
    assert screen[-1].startswith("more: --all")


def test_the_verdict_comes_first_and_then_what_it_rests_on() -> None:
    screen = worth_text(worth_document(mode("default"))).splitlines()
    assert screen[:2] == ["bench:setup · CPU (x86_64) · torch 2.13.0", "WORTH IT  Worth it."]
    assert "default 200 us 100 us 0.50x 1.0% 2.5 hours 20,000 calls" in map(spaced, screen)
    assert "  + Fused." in screen
    assert len(screen) <= 25
    lines = [
        *map(spaced, worth_text(worth_document(mode("default")), everything=True).splitlines())
    ]
    assert "default wall time 200 us 100 us 0.50x 1.0%" in lines
    assert not any("GPU time" in line for line in lines)  # none was measured
    assert "default 1.90 s 2.5 hours 2 1 2 20,000" in lines
    assert "+ Fused." in lines
    assert "= Same." in lines
    assert "print (2)" in lines
    assert "8|128 1.00 s 200 us 100 us 0.50x size" in lines
    assert "A note." in lines
    assert "Mode by mode" not in lines


def test_each_mode_has_its_line_and_a_failed_one_no_numbers() -> None:
    failed = {
        "mode": "max-autotune",
        "state": "failed",
        "text": "Cannot be compiled: no.",
        "failed": "no",
    }
    found = worth_document(mode("default", gpu_ns=both(90_000, 80_000)), failed)
    text = worth_text(found, everything=True)
    assert "max-autotune\n      Cannot be compiled: no." in text
    assert text.count("max-autotune") == 1
    assert "GPU time" in text


def test_markdown_is_escaped_and_a_kept_cache_is_said() -> None:
    text = worth_markdown(worth_document(mode("default", graph_breaks={}), compiler_cache="kept"))
    assert "| 8\\|128 |" in text
    assert "which hides compile time" in text
    assert "graph breaks\n" not in text
