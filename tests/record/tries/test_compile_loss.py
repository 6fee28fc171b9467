"""The loss beside the model: which calls are seen, and that each can be compiled."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from foretrace.record.tries.applied import applied  # noqa: E402
from foretrace.record.tries.applied.compiling import LOSSES  # noqa: E402
from foretrace.record.tries.session import Session  # noqa: E402
from foretrace.record.tries.tournament import patched  # noqa: E402

pytestmark = pytest.mark.torch
LOGITS, CLASSES = torch.zeros(1000, 1000), torch.zeros(1000, dtype=torch.long)


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The switch with a compiler that counts; torch's functions come back after the test."""
    for name in LOSSES:
        monkeypatch.setattr(F, name, getattr(F, name))
    ran: list[str] = []

    def compiled(function: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            ran.append(function.__name__)
            return function(*arguments, **options)

        return run

    monkeypatch.setattr(torch, "compile", compiled)
    switch = applied()["compile_loss"](Session(__file__))
    switch.ran = ran  # type: ignore[attr-defined]
    return switch


class WithLoss(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return F.cross_entropy(x, CLASSES)


def test_functions_and_modules_are_compiled_while_it_is_on(turned: Any) -> None:
    for on, ran in ((False, []), (True, ["cross_entropy", "mse_loss"]), (False, [])):
        turned.turn(on)
        turned.ran.clear()
        torch.nn.CrossEntropyLoss()(LOGITS, CLASSES)
        F.mse_loss(LOGITS, LOGITS)
        assert turned.ran == ran
    assert turned.why_not() == ""


def test_a_loss_inside_the_model_is_the_models(turned: Any) -> None:
    turned.session.outermost = WithLoss()
    turned.turn(True)
    turned.session.outermost(LOGITS)
    assert turned.ran == []
    assert turned.why_not() == "no loss function of torch is called beside the model"


def test_losses_that_the_compiler_calls_are_torchs(
    turned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor traces patterns with losses in them, while a compiled loss runs."""

    def compiled(function: Any) -> Any:
        return lambda *given: (turned.ran.append("compiled"), F.mse_loss(LOGITS, LOGITS))[1]

    monkeypatch.setattr(torch, "compile", compiled)
    turned.turn(True)
    F.l1_loss(LOGITS, LOGITS)
    assert turned.ran == ["compiled"]


def test_a_small_loss_is_not_worth_it(turned: Any) -> None:
    F.cross_entropy(LOGITS[:4, :10], CLASSES[:4])
    assert turned.why_not() == "the loss reads no more than 40 values"


def test_a_loss_module_is_written_where_it_is_made(turned: Any) -> None:
    source = "import torch\ncriterion = torch.nn.CrossEntropyLoss()\n"
    criterion = torch.nn.CrossEntropyLoss()
    turned.session.made_at[id(criterion)] = 2
    criterion(LOGITS, CLASSES)
    text, left_out = patched(source, {"compile_loss": turned.edits()})
    assert text == source + "criterion = torch.compile(criterion)\n"
    assert left_out == []


def test_a_function_is_left_to_write_by_hand(turned: Any) -> None:
    F.cross_entropy(LOGITS, CLASSES)
    assert turned.edits() == []
