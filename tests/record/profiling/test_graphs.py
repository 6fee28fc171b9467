"""`graphs=True` records each CUDA graph while it is captured. Without a GPU a stand-in takes the
place of `torch.cuda.graph`: what is tested is when the profilers run and which files they leave.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import foretrace as ft
from foretrace.record.profiling import capture
from foretrace.record.profiling.script import ScriptOptions, record_script


class StandIn:
    """Enters and leaves, as `torch.cuda.graph` does."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *problem: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "graph", StandIn)


def make_graph(size: int) -> None:
    with torch.cuda.graph():  # type: ignore[call-arg]
        torch.ones(size, size).mm(torch.ones(size, size))


def ops(path: Path) -> set[str]:
    return set(ft.open(path, cache=False).ops["name"])


def test_each_graph_has_its_capture(tmp_path: Path) -> None:
    entered = StandIn.__enter__
    with capture(tmp_path / "run", steps=1, warmup=2, graphs=True) as window:
        for step in range(5):
            if step == 0:
                make_graph(8)
                make_graph(16)
            torch.ones(4).add(1)
            window.step()
    found = sorted((tmp_path / "run.captures").iterdir())
    assert [path.name for path in found] == ["graph_000.json.gz", "graph_001.json.gz"]
    for path in found:
        assert "aten::mm" in ops(path)
        assert "aten::add" not in ops(path)
    assert window.trace is not None
    assert "aten::mm" not in ops(window.trace)
    assert StandIn.__enter__ is entered


def test_a_graph_in_a_recorded_step_is_in_the_trace(tmp_path: Path) -> None:
    with capture(tmp_path / "run", steps=None, graphs=True) as window:
        make_graph(8)
    assert window.trace is not None
    assert "aten::mm" in ops(window.trace)
    assert not (tmp_path / "run.captures").exists()


def test_a_capture_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with capture(tmp_path / "run", steps=1, warmup=2, graphs=True) as window:
        for step in range(5):
            if step == 0:
                with pytest.raises(TypeError):
                    make_graph("eight")  # type: ignore[arg-type]
            torch.ones(4).add(1)
            window.step()
    assert not (tmp_path / "run.captures").exists()


def test_a_run_without_graphs_says_so(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no CUDA graph was captured"):
        _record(tmp_path)


def _record(folder: Path) -> None:
    with capture(folder / "run", steps=1, warmup=1, graphs=True) as window:
        for _ in range(4):
            torch.ones(4).add(1)
            window.step()


def test_a_script_with_graphs(tmp_path: Path) -> None:
    """Graphs made before the window lie in the early recording, which becomes a capture."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(4, 4)\n"
        "with torch.cuda.graph():\n"
        "    torch.ones(8, 8).mm(torch.ones(8, 8))\n"
        "for _ in range(8):\n"
        "    model(torch.ones(2, 4))\n"
    )
    options = ScriptOptions(steps=1, warmup=2, graphs=True)
    done = record_script(str(script), [], tmp_path / "run", options=options)
    assert done.exit_code == 0
    assert "aten::mm" not in ops(done.traces[0])
    assert "aten::mm" in ops(tmp_path / "run.captures" / "graph_000.json.gz")
    short = ScriptOptions(steps=1, warmup=200, graphs=True)
    done = record_script(str(script), [], tmp_path / "whole", options=short)
    assert "aten::mm" in ops(done.traces[0])
    assert not (tmp_path / "whole.captures").exists()
