"""The whole forward pass in one launch: every tile is dealt once, and all programs end together."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton.experimental.gluon")

from foretrace.kernels import steps
from foretrace.kernels.case import CallCase
from foretrace.kernels.device import specialised, workspace
from foretrace.kernels.device.pingpong import dealt, gate_tile
from foretrace.kernels.tune import CANDIDATES

Dims = tuple[int, int, int, int, int]

DIMS = st.tuples(
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(1, 80),
)


@given(DIMS, st.integers(1, 140))
def test_every_tile_is_dealt_once(dims: Dims, programs: int) -> None:
    tiles_m, tiles_h, tiles_d, _, _ = dims
    gates, downs = [], 0
    for me in range(programs):
        mine, evenly, down, even, first = dealt.fn(me, programs, dims)
        gates.append([gate_tile.fn(i, me, programs, evenly, even, first) for i in range(mine)])
        assert down == len(range(me, tiles_m * tiles_d, programs))
        downs += down
    assert sorted(chain.from_iterable(gates)) == list(range(tiles_m * tiles_h))
    assert downs == tiles_m * tiles_d


@given(DIMS, st.integers(1, 140))
def test_no_program_has_much_more_to_do(dims: Dims, programs: int) -> None:
    """Where there is enough to share, the steps of two programs differ by less than two tiles."""
    *_, gate_steps, down_steps = dims
    work = []
    for me in range(programs):
        gates, _, downs, even, _ = dealt.fn(me, programs, dims)
        work.append(gates * gate_steps + downs * down_steps)
    if even:
        assert max(work) - min(work) <= 2 * gate_steps


def test_a_graph_keeps_counters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = torch.zeros(1000, dtype=torch.int32)
    monkeypatch.setattr(workspace, "_set_aside", {-1: zeros})
    like = torch.zeros(1)
    first, second = (workspace._counters_of_a_graph(like, count) for count in (130, 2))
    assert first.data_ptr() == zeros.data_ptr()
    assert second.data_ptr() == zeros.data_ptr() + 4 * 256
    assert len(first) >= 130
    assert workspace._counters_of_a_graph(like, 900).numel() == 900  # too few are left


def test_where_programs_cannot_run_at_once_the_parts_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A green context has fewer multiprocessors than the launch has programs."""
    tensors = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(4)]
    asked = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise RuntimeError("Triton Error [CUDA]: too many blocks in cooperative launch")

    monkeypatch.setattr(specialised, "_shared", set())
    monkeypatch.setattr(specialised, "_bound", lambda *_, others: refuse)
    monkeypatch.setattr(steps, "takes_pingpong", lambda *_: True)
    route = CANDIDATES["whole"][0][2]
    for _ in range(2):
        part = steps.whole_part(CallCase.of(*tensors, "silu"), route, save=True)
        assert part is not None
        assert part(*tensors) is None
    assert len(asked) == 1
