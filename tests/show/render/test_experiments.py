"""The documents of `shapes` as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foretrace.base.errors import MissingError, UsageError
from foretrace.schema.documents.shapes import ShapesDocument
from foretrace.show.render.experiments import (
    need_matplotlib,
    shapes_page,
    short_reason,
)
from foretrace.show.render.terminal import drawn, marked


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
    text = drawn(shapes_page(shapes_document(), every=True))
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
    text = marked(shapes_page(shapes_document(), every=True))
    assert "| batch x seq | eager | static | dynamic |" in text
    assert "- **dynamic at 8x8** tensor 'x\\|' size mismatch" in text


def test_what_was_not_there_is_not_said() -> None:
    quiet = shapes_document(left_out=[], compiler_start_ns=None, contenders=[])
    one = msgspec.structs.replace(quiet, shapes=quiet.shapes[:1])
    text = drawn(shapes_page(quiet, every=True))
    assert ", 1 shape: " in drawn(shapes_page(one))
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


def test_a_wrong_name_of_a_plot_is_refused_before_the_work(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for wrong in (tmp_path / "a.txt", tmp_path / "none" / "a.svg"):
        with pytest.raises(UsageError):
            need_matplotlib(wrong)
