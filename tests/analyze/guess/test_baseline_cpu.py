"""A guess file written from one run holds on three further runs of the same program, on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foretrace.analyze.guess import check
from foretrace.analyze.guess.baseline import write
from foretrace.analyze.guess.guess_files import load

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")


def _mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))


def _training() -> Callable[[], None]:
    model, x = _mlp(), torch.randn(8, 16)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        with torch.profiler.record_function("train_step"):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return step


@cache
def _compiled() -> Callable[[], None]:
    model, x = torch.compile(_mlp().eval()), torch.randn(8, 16)

    def step() -> None:
        with torch.no_grad(), torch.profiler.record_function("forward"):
            model(x)

    return step


@pytest.mark.parametrize(
    ("workload", "least"), [(_training, 25), pytest.param(_compiled, 4, marks=pytest.mark.sweep)]
)
def test_three_further_runs(
    workload: Callable[[], Callable[[], None]], least: int, kernel_trace: Any, tmp_path: Path
) -> None:
    traces = []
    for _ in range(4):
        run = workload()
        with kernel_trace(warmup=2, steps=2) as t:
            for _ in t:
                run()
        traces.append(t.trace)
    file = tmp_path / "guesses.toml"
    file.write_text(write(traces[0]))
    guesses = load(file)
    assert len(guesses) >= least
    for trace in traces:
        assert [verdict for verdict in check(trace, guesses) if verdict.verdict != "hit"] == []
    # all but the name of the file
    assert write(traces[1]).split("\n", 1)[1] == write(traces[0]).split("\n", 1)[1]
