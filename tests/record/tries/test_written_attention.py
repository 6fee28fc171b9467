"""Attention that a script writes out: what is recognised, and that nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from foretrace.record.tries.applied import applied  # noqa: E402
from foretrace.record.tries.session import Session  # noqa: E402
from foretrace.record.tries.tournament import line_to_write, patched  # noqa: E402

pytestmark = pytest.mark.torch
torch.manual_seed(0)
Q, K, V = (torch.randn(2, 3, 8, 16, requires_grad=True) for _ in range(3))
LATER = torch.triu(torch.ones(8, 8, dtype=torch.bool), 1)
PADDED = torch.arange(8).expand(2, 1, 1, 8) > 5
DROPOUT = torch.nn.Dropout(0.5)


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The switch, which also counts the calls of the function."""
    original, calls = F.scaled_dot_product_attention, []

    def counted(*given: Any, **options: Any) -> Any:
        calls.append((given[3] is not None, given[4], given[5], options["scale"]))
        return original(*given, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    switch = applied()["written_attention"](Session(__file__))
    switch.calls = calls  # type: ignore[attr-defined]
    yield switch
    switch.turn(False)


def operators() -> Any:
    return F.softmax((Q @ K.transpose(-1, -2) / 4).masked_fill(LATER, -math.inf), -1) @ V


def nano() -> Any:
    scores = (Q @ K.transpose(-2, -1)) * (1.0 / math.sqrt(K.size(-1)))
    scores = scores.masked_fill(LATER.view(1, 1, 8, 8)[:, :, : scores.size(-2)], float("-inf"))
    return DROPOUT.eval()(F.softmax(scores, dim=-1)) @ V


def functions() -> Any:
    scores = torch.matmul(Q, K.mT).div(2).mul(0.5)
    return torch.matmul(torch.softmax(scores.masked_fill(PADDED, -1e9), dim=-1), V)


def weights_used_again() -> Any:
    weights = (Q @ K.mT).softmax(3)
    return weights @ V + weights.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("written", "call"),
    [
        (operators, (False, 0.0, True, 0.25)),
        (nano, (False, 0.0, True, 0.25)),
        (functions, (True, 0.0, False, 0.25)),
        (weights_used_again, (False, 0.0, False, 1.0)),
    ],
)
def test_one_call_takes_the_place_and_the_gradients_stay(
    turned: Any, written: Callable[[], Any], call: tuple[object, ...]
) -> None:
    turned.turn(False)
    before = written()
    gradients = torch.autograd.grad(before.sum(), [Q, K, V])
    turned.turn(True)
    after = written()
    assert turned.calls == [call]
    assert torch.allclose(before, after, atol=1e-6)
    for one, other in zip(gradients, torch.autograd.grad(after.sum(), [Q, K, V]), strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    turned.turn(False)
    assert torch.equal(written(), before)
    assert len(turned.calls) == 1


def in_place() -> Any:
    scores = Q @ K.mT
    scores /= 4
    scores.masked_fill_(PADDED, -1e9)
    return scores.softmax(-1) @ V


OTHERS: dict[str, Callable[[], Any]] = {
    "in place": in_place,
    "no softmax": lambda: (Q @ K.mT / 4) @ V,
    "over another dimension": lambda: (Q @ K.mT).softmax(-2) @ V,
    "in another precision": lambda: (Q @ K.mT).softmax(-1, dtype=torch.float64) @ V.double(),
    "a mask that hides nothing": lambda: (Q @ K.mT).masked_fill(LATER, 0.0).softmax(-1) @ V,
    "scaled by a tensor": lambda: (Q @ K.mT * torch.full((1,), 0.5)).softmax(-1) @ V,
    "summed": lambda: (Q @ K.mT).sum(),
    "without heads": lambda: (Q[0] @ K[0].mT).softmax(-1) @ V[0],
}


@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_is_computed_as_written(turned: Any, name: str) -> None:
    turned.turn(False)
    before = OTHERS[name]()
    turned.turn(True)
    after = OTHERS[name]()
    assert torch.equal(before, after)
    assert type(after) is torch.Tensor
    assert turned.calls == []


def test_the_first_steps_show_where_it_is_written(turned: Any) -> None:
    assert torch.equal(operators(), operators())
    functions()
    assert turned.calls == []
    assert turned.why_not() == ""
    causal, masked = turned.edits()
    assert causal.line == operators.__code__.co_firstlineno + 1
    assert line_to_write([masked]) == (
        f"F.scaled_dot_product_attention(q, k, v, attn_mask=~mask) in line {masked.line}"
    )
    assert patched("x = 1\n", {"written_attention": [causal]}) == ("x = 1\n", ["written_attention"])


def test_a_script_without_attention(turned: Any) -> None:
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    assert turned.why_not() == "no attention is written out as matmul, softmax, matmul"


def test_dropout_is_the_functions(turned: Any) -> None:
    turned.turn(True)
    F.dropout((Q @ K.mT).softmax(-1), 0.25) @ V
    assert turned.calls == [(False, 0.25, False, 1.0)]
