"""Kernels that a graph replays cost what the same calls cost without the graph."""

from pathlib import Path
from shutil import copy

import polars as pl
import pytest

import foretrace
from foretrace.model.trace import Trace

RECORDED = Path(__file__).parents[2] / "recorded"
COST = ("name", "op_name", "flops", "bytes_read", "bytes_written", "bytes", "cost_certainty")


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "captures").mkdir()
    copy(RECORDED / "graph_capture.json.gz", folder / "captures" / "capture.json.gz")
    return foretrace.open(copy(RECORDED / "graph_replay.json.gz", folder))


def in_step(trace: Trace, step: int) -> pl.DataFrame:
    return trace.kernels.filter(pl.col("step") == step).select(COST).sort(COST)


def test_every_kernel_of_the_steps_has_a_cost(replay: Trace) -> None:
    """Decoding at batch 1, 8 and 32, 421 kernels each."""
    kernels = replay.kernels.filter(pl.col("step").is_not_null())
    assert kernels.height == 3 * 3 * 421
    assert kernels["bytes"].null_count() == 0


def test_a_replay_costs_what_the_eager_run_costs(replay: Trace) -> None:
    eager = foretrace.open(RECORDED / "graph_eager.json.gz")
    for step in range(3):
        assert in_step(replay, step).equals(in_step(eager, step))
