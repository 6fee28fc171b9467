"""A climb on this machine: what ran is marked, what could not is skipped in one line, and its
claims are inconclusive.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    # with one, torch's profiler records it as well, and claims about kernels are marked
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU"),
]

from foretrace.cli import main  # noqa: E402
from foretrace.learn.ladder import climb as climbing  # noqa: E402
from foretrace.learn.ladder.lines import climb_text  # noqa: E402

NO_COMPILER = "torch.compile needs a C++ compiler on a CPU: install g++ (apt install g++)"


def test_one_rung_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    assert (
        main(
            [
                "lab",
                "ladder",
                "--only",
                "linear",
                "--device",
                "cpu",
                "--keep",
                str(tmp_path),
                "--json",
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert "1 of 3: linear eager, 1024x32x64" in captured.err
    assert found["source"] == "this machine"
    assert found["skipped"] == []
    marks = {(claim["number"], claim["guess"]): claim["verdict"] for claim in found["claims"]}
    assert (
        marks["B8", "total.calls(aten::linear) == 0"]
        == marks["B4", "total.calls(aten::add) == 0"]
        == marks["B16", "steps == 3"]
        == "hit"
    )
    assert marks["B3", "in linear_fwd: kernels == 1"] == "unknown"  # no GPU, no kernels
    assert marks["E7", "in linear_fwd: host.time < a.host.time"] == "unknown"
    [row] = found["article"]
    assert row["setup"] == "linear compiled, 1024x32x64, against eager"
    assert (
        "No longer called per call: aten::as_strided, aten::linear, aten::t and aten::transpose."
        in row["changed"]
    )
    assert sum(path.name.endswith(".run.json") for path in tmp_path.iterdir()) == 3


def test_what_cannot_run_is_skipped_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said: list[str] = []
    found = climbing.climb_here(tmp_path, "cpu", ["attention", "linear"], said.append)
    reasons = Counter(entry.why for entry in found.skipped)
    assert reasons[NO_COMPILER] == 2
    assert len(found.skipped) == 4  # and attention's two backends without a CPU form
    assert {claim.verdict for claim in found.claims if claim.variant in ("compiled", "cudnn")} == {
        "unknown"
    }
    assert (
        sum(NO_COMPILER in line for line in climb_text(found).split("Skipped")[1].splitlines()) == 1
    )
    assert said.count(f"   skipped: {NO_COMPILER}") == 2
    marks = {(claim.number, claim.guess): claim.verdict for claim in found.claims}
    assert (
        marks["B69", "total.calls(aten::clone) == 0"]
        == marks["B73", "fused(matmul, softmax)"]
        == "hit"
    )
