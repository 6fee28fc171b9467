"""Single fixes, turned in this process: what they change, and that they take it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
import torch

from foretrace.record.tries.applied import applied
from foretrace.record.tries.session import Session, Switch

pytestmark = pytest.mark.torch


@pytest.fixture
def precision() -> Iterator[None]:
    """The global flags as they were."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def _switch(name: str, module: object) -> Switch:
    session = Session("train.py")
    session.outermost = module
    return applied()[name](session)


@pytest.mark.usefixtures("precision")
def test_tf32_stays_on_in_a_script_that_turns_it_off_in_every_step() -> None:
    model = torch.nn.Conv2d(2, 2, 1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = False
    switch = _switch("tf32", model)
    seen: list[bool] = []
    model.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.allow_tf32))
    assert switch.why_not() == ""
    for on in (True, False):
        switch.turn(on)
        torch.backends.cudnn.allow_tf32 = False
        model(torch.ones(1, 2, 3, 3))
    assert seen == [True, False]


def test_a_compiled_module_is_compiled_again_only_with_cuda_graphs() -> None:
    model = torch.nn.Linear(2, 2)
    compiled = torch.compile(model)
    assert _switch("compile", compiled).why_not() == "it is compiled already"
    again = _switch("compile_reduce_overhead", compiled)
    assert again.why_not() == ""
    assert again.edits() == []
    graphs = torch.compile(model, mode="reduce-overhead")
    assert _switch("compile_reduce_overhead", graphs).why_not() == "it is compiled already"


class _Own(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 2


@pytest.mark.parametrize(
    "model", [_Own(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())]
)
def test_the_line_to_write_compiles_the_module(model: torch.nn.Module) -> None:
    """In place is nicer, and compiles no module whose forward pass is torch's own."""
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    session = Session("train.py")
    session.outermost = model
    session.made_at[id(model)] = 7
    (edit,) = applied()["compile"](session).edits()
    named = {"torch": torch, "model": model, "backend": backend}
    line = edit.words.format(name="model").replace(")", ", backend=backend)").replace("(,", "(")
    exec(line, named)
    named["model"](torch.ones(2, 2))  # type: ignore[operator]
    assert edit.line == 7
    assert len(graphs) == 1


def test_random_numbers_of_the_forward_pass_leave_those_of_the_script_alone() -> None:
    drawn: dict[int, list[list[float]]] = {}
    for seed in (0, 1):
        session = Session("train.py", seed)
        model = torch.nn.Dropout()
        session.outputs = []
        torch.manual_seed(0)
        data = []
        for step in range(3):
            data.append(torch.rand(1).item())
            if step == 0:
                session.begin_with(model)  # as the first call begins
            model(torch.ones(64))
        drawn[seed] = [data, *(each[0].tolist() for each in session.outputs)]
    assert drawn[0][0] == drawn[1][0]
    assert drawn[0][1:] != drawn[1][1:]
    assert drawn[0][1] != drawn[0][2]
