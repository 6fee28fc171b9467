"""From nothing to the reasons, on a CPU: a script is recorded and compiled, and `why` explains it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from foretrace.cli import main
from foretrace.pages.export.publish import Folder, copies

pytestmark = pytest.mark.torch
EXAMPLES = Path(__file__).parents[3] / "examples"
KERNEL = "cpp_fused__unsafe_view_gelu_mul_0"
VALUES = 8 * 16 * 128  # of one operand of the matmul, four bytes each


def why(*arguments: str) -> dict[str, Any]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main(["why", *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(shown.getvalue())
    return document


def kernel_of(document: dict[str, Any]) -> dict[str, Any]:
    [found] = [each for each in document["kernels"] if not each["extern"]]
    return found


def test_the_fused_kernel_has_its_code_its_lines_and_its_bytes(cpu_bundle: Path) -> None:
    kernel = kernel_of(why(str(cpu_bundle), KERNEL))
    assert kernel["name"] == KERNEL
    script = Path(__file__).parents[2] / "geglu_script.py"
    written = script.read_text().splitlines()
    for source in kernel["sources"]:
        assert Path(source["file"]).name == "geglu_script.py"
        assert written[source["line"] - 1].strip() == source["code"]
    assert "F.gelu(gate" in "".join(source["code"] for source in kernel["sources"])
    assert "tmp12.tanh()" in kernel["code"]
    assert [len(kernel[name]) for name in ("loads", "stores")] == [2, 1]
    assert kernel["bytes"] == 3 * VALUES * 4
    assert (kernel["launches"], kernel["time_ns"] > 0) == (3, True)


def test_its_time_is_that_of_the_range_in_the_trace(cpu_bundle: Path) -> None:
    """By a second method: the trace's own JSON."""
    events = json.loads(gzip.decompress(cpu_bundle.read_bytes()))["traceEvents"]
    spent = [event["dur"] for event in events if event["name"].endswith(KERNEL)]
    assert len(spent) == 3
    assert kernel_of(why(str(cpu_bundle)))["time_ns"] == round(sum(spent) * 1000)


def test_the_matmuls_stand_between(cpu_bundle: Path) -> None:
    document = why(str(cpu_bundle), "--not-fused")
    assert len(document["not_fused"]) == 3
    assert {pair["reason"] for pair in document["not_fused"]} == {"a library kernel (extern)"}
    assert {pair["at_most_ns"] for pair in document["not_fused"]} == {None}, "no known bandwidth"


def test_a_shared_copy_leaves_the_records_here(cpu_bundle: Path, tmp_path: Path) -> None:
    [shared] = copies(str(cpu_bundle), Folder(tmp_path), cache=False)
    assert "the compiler's records beside it are not copied" in shared.notes[0]
    assert [path.name for path in tmp_path.iterdir()] == [Path(shared.place).name]
