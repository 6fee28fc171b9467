"""The line of Python that launched a kernel."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from corpus.builder import TraceBuilder
from opened_traces import open_made


def test_the_innermost_frame_that_is_not_torchs(tmp_path: Path) -> None:
    builder = TraceBuilder().frame("train.py(12): main", 0, 90_000)
    builder.frame("model.py(63): forward", 1_000, 80_000)
    builder.frame("torch/nn/modules/linear.py(125): forward", 2_000, 70_000)
    builder.frame("<built-in function linear>", 3_000, 60_000)
    builder.op("aten::mm", 4_000, 10_000).launch(5_000, 500).kernel("sgemm", 7_000, 1_000)
    (row,) = ft.look(open_made(builder, tmp_path)).kernels
    assert row.source == "model.py:63"


def test_without_stacks_there_is_no_line(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 4_000, 10_000).launch(5_000, 500)
    (row,) = ft.look(open_made(builder.kernel("sgemm", 7_000, 1_000), tmp_path)).kernels
    assert row.source is None
