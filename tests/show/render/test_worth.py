"""The document of `foretrace worth` as a page."""

from __future__ import annotations

from typing import Any

import msgspec

from foretrace.schema.documents.worth import WorthDocument
from foretrace.show.render.experiments import worth_markdown, worth_text


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


def document(*modes: dict[str, Any], **more: Any) -> WorthDocument:
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
    found = document(mode("default", changed=["A change."] * 40), verdict=verdict)
    screen = worth_text(found, width=80).splitlines()
    assert len(screen) == 25
    assert screen[1] == "NOT WORTH IT  slower."
    assert screen[-1].startswith("more: --all")


def test_the_verdict_comes_first_and_then_what_it_rests_on() -> None:
    screen = worth_text(document(mode("default"))).splitlines()
    assert screen[:2] == ["bench:setup · CPU (x86_64) · torch 2.13.0", "WORTH IT  Worth it."]
    assert "default 200 us 100 us 0.50x 1.0% 2.5 hours 20,000 calls" in map(spaced, screen)
    assert "  + Fused." in screen
    assert len(screen) <= 25
    lines = [*map(spaced, worth_text(document(mode("default")), everything=True).splitlines())]
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
    found = document(mode("default", gpu_ns=both(90_000, 80_000)), failed)
    text = worth_text(found, everything=True)
    assert "max-autotune\n      Cannot be compiled: no." in text
    assert text.count("max-autotune") == 1
    assert "GPU time" in text


def test_markdown_is_escaped_and_a_kept_cache_is_said() -> None:
    text = worth_markdown(document(mode("default", graph_breaks={}), compiler_cache="kept"))
    assert "| 8\\|128 |" in text
    assert "which hides compile time" in text
    assert "graph breaks\n" not in text
