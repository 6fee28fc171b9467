"""The shape question on this machine's CPU: what is compiled at which shape, and what Dynamo does
beyond its limit.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("few_calls")]

from foretrace.base.errors import MissingError, UsageError  # noqa: E402
from foretrace.cli import main  # noqa: E402
from foretrace.compare.measure import Sample  # noqa: E402
from foretrace.learn import ladder  # noqa: E402
from foretrace.record.experiments import machine as timing  # noqa: E402
from foretrace.record.experiments.machine import Quartiles  # noqa: E402
from foretrace.record.experiments.shapes import (  # noqa: E402
    fresh_compiler,
    shapes,
)
from foretrace.record.lab_documents import ShapesDocument  # noqa: E402
from foretrace.record.rung import Choice  # noqa: E402

ON_CPU = Choice(device="cpu", dtype="fp32")


def sized(*sizes: int) -> list[dict[str, int]]:
    return [{"size": size} for size in sizes]


def run(sizes: tuple[int, ...], *names: str) -> dict[str, dict[str, Any]]:
    found = shapes(ladder.rung("matmul_add"), sized(*sizes), names, ON_CPU, say=lambda text: None)
    return {entry.name: msgspec.to_builtins(entry) for entry in found.contenders}


@pytest.mark.usefixtures("dynamo_alone")
def test_each_way_compiles_where_it_must() -> None:
    found = run((4, 8, 16), "eager", "static", "dynamic", "automatic")
    graphs = {name: [visit["graphs"] for visit in entry["visits"]] for name, entry in found.items()}
    assert graphs == {
        "eager": [0, 0, 0],
        "static": [1, 1, 1],
        "dynamic": [1, 0, 0],
        "automatic": [1, 1, 0],
    }
    assert {name: entry["recompiles"] for name, entry in found.items()} == {
        "eager": 0,
        "static": 2,
        "dynamic": 0,
        "automatic": 1,
    }
    assert "size mismatch" in found["automatic"]["visits"][1]["recompiles"][0]
    assert {visit["compiled"] for visit in found["dynamic"]["visits"]} == {True}
    assert {visit["compiled"] for visit in found["eager"]["visits"]} == {None}
    assert found["static"]["visits"][0]["gpu_ns"] is None  # a CPU


@pytest.mark.usefixtures("dynamo_alone")
def test_beyond_the_recompile_limit_new_shapes_run_eagerly_and_that_is_said() -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        visits = run((4, 8, 16, 32), "static")["static"]["visits"]
    assert [visit["compiled"] for visit in visits] == [True, True, False, False]
    assert [bool(visit["gave_up"]) for visit in visits] == [False, False, True, False]
    # what was given up was not compiled again
    assert [len(visit["recompiles"]) for visit in visits] == [0, 1, 0, 0]


@pytest.mark.usefixtures("dynamo_alone")
def test_the_command_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    line = "lab shapes matmul_add --small --contenders eager,dynamic --device cpu --json"
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    jsonschema.validate(document, msgspec.json.schema(ShapesDocument))
    assert "foretrace: dynamic, shape 2 of 3: size " in captured.err
    assert [entry["name"] for entry in document["contenders"]] == ["eager", "dynamic"]
    assert document["contenders"][1]["graphs"] == 1
    assert (document["compiler_cache"], document["left_out"]) == ("empty", [])


def test_what_cannot_run_here_is_left_out_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = shapes(
        ladder.rung("mlp"),
        [{"batch": 1, "dim": 8, "hidden": 8, "seq": 2}],
        (),
        ON_CPU,
        say=lambda text: None,
    )
    assert [entry.name for entry in found.contenders] == ["eager"]
    reasons = {entry.name: entry.why for entry in found.left_out}
    assert list(reasons) == ["static", "dynamic", "automatic", "liger", "liger_packed", "fused"]
    assert "install g++" in reasons["automatic"]
    assert "need a GPU" in reasons["liger"]
    assert "need a GPU" in reasons["fused"]
    assert found.compiler_start_ns is None


def test_a_rung_that_cannot_run_at_all_is_one_line() -> None:
    most = 2**63 - 1
    with pytest.raises(MissingError, match=f"at batch 1, in_dim {most}: RuntimeError: "):
        shapes(
            ladder.rung("linear"),
            [{"batch": 1, "in_dim": most}],
            ["eager"],
            ON_CPU,
            say=lambda text: None,
        )
    with pytest.raises(UsageError, match="3 heads cannot share 8 features"):
        shapes(
            ladder.rung("block"),
            [{"batch": 1, "heads": 3, "dim": 8}],
            ["eager"],
            ON_CPU,
            say=lambda text: None,
        )


def test_on_a_gpu_the_events_are_asked_with_a_warm_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], int, bool]] = []

    def events(calls: dict[str, Any], repeats: int, *, cold: bool) -> dict[str, Quartiles]:
        asked.append((list(calls), repeats, cold))
        return {name: Quartiles(2.0, 2.0, 2.0) for name in calls}

    monkeypatch.setattr(timing, "device_times", events)
    found = timing.paces({"a": lambda: None, "b": lambda: None}, on_gpu=True)
    assert asked == [(["a", "b"], 3, False)]
    assert found["b"].gpu == Sample(2000.0, 0.0)
    assert timing.paces({"a": lambda: None}, on_gpu=False)["a"].gpu == Sample(None, None)


def test_an_error_leaves_no_folder_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with fresh_compiler():
        pass
    before = list(tmp_path.iterdir())  # Inductor's own folder, where a process uses it first
    with pytest.raises(ValueError, match="mine"), fresh_compiler():
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == before
