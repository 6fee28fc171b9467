"""`t()` copies nothing, and a compiled graph has strides built in: recorded, and with real tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foretrace.analyze.why.compiled_kernels import strided_views
from foretrace.model.compiled.assemble import assemble
from foretrace.read.compiler import read
from foretrace.schema.compiler import NamedTensor
from model.compiled.recorded import compiled

SCRIPT = """
import torch
weight, x = torch.randn(64, 32), torch.randn(16, 32)
transposed = x.t().contiguous().t()
def linear(x): return torch.nn.functional.linear(x, weight)
def dynamic(x): return torch.nn.functional.linear(x, weight)
def static(x): return torch.nn.functional.linear(x, weight)
for function, options in (
    (linear, {}),
    (dynamic, {"dynamic": True, "backend": "eager"}),
    (static, {"dynamic": False, "backend": "eager"}),
):
    run = torch.compile(function, **options)
    for each in (x, transposed, x, transposed):
        assert torch.allclose(run(each), function(each), atol=1e-4)
"""


def test_the_weights_of_an_mlp_are_read_through_strides() -> None:
    (part,) = compiled("mlp").compilations
    gate, up, down = strided_views(part)
    assert (gate.source.shape, gate.source.stride) == ((3072, 768), (768, 1))
    assert (gate.result.shape, gate.result.stride) == ((768, 3072), (1, 768))
    assert [each.used_by for each in (gate, up, down)] == [
        ("extern_kernels.mm:1",), ("extern_kernels.mm:2",), ("extern_kernels.mm:4",)
    ]  # fmt: skip
    assert {each.layout for each in (gate, up, down)} == {"tn"}


def test_a_copy_is_no_proof() -> None:
    """`y.t().contiguous()` is computed: no call reads `y` under the strides of the view."""
    (view,) = strided_views(compiled("unfusable").compilations[0])
    assert (view.used_by, view.layout) == ((), "")
    assert view.line is not None
    assert view.line.line == 51


def test_a_compiled_linear_meets_other_strides(tmp_path: Path) -> None:
    """Torch compiles again for other strides, with `dynamic=True` too; then each has a version."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "log"
    environment = {
        **os.environ,
        "TORCH_TRACE": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    command = [sys.executable, str(script)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=300)
    run = assemble(read(str(folder)))
    again = [each for each in run.compilations if each.recompile]
    assert len(run.compilations) == 6
    assert len(again) == 3
    words = [each.recompile[0].text for each in again]
    assert words[0] == words[2] == "tensor 'x' stride mismatch at index 0. expected 32, actual 1"
    assert words[1] == "tensor 'x' stride mismatch at index 1. expected 1, actual 16"
    assert [each.recompile[0].what for each in again][:2] == [
        "stride at index 0",
        "stride at index 1",
    ]
    first, second = run.compilations[:2]
    (view,) = strided_views(first)
    assert view.source == NamedTensor(view.source.name, "f32", (64, 32), (32, 1), "cpu")
    assert view.result == NamedTensor("permute", "f32", (32, 64), (1, 32), "cpu")
    assert (view.layout, strided_views(second)[0].layout) == ("tn", "tt")
