"""What the article says about the operations of each rung, as far as a CPU can show it: names and
counts, no times.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.errors import MissingError
from foretrace.learn import ladder
from foretrace.record.rung import Choice

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture
def per_call(tmp_path: Path, counts: Callable[[Path], Counter[str]]) -> Callable[..., Counter[str]]:
    """Operations per recorded call of a rung, on a CPU, in float32, at its small sizes."""

    def of(name: str, variant: str | None = None, **values: Any) -> Counter[str]:
        choice = Choice(variant=variant, device="cpu", dtype="fp32", small=True, values=values)
        done = ladder.run(ladder.rung(name), choice, tmp_path, steps=1, warmup=1)
        return counts(done.trace)

    return of


def test_matmul_add(per_call: Callable[..., Counter[str]]) -> None:
    apart, together, batched = (
        per_call("matmul_add"),
        per_call("matmul_add", "addmm"),
        per_call("matmul_add", batch=2),
    )
    assert (apart["aten::mm"], apart["aten::add"], apart["aten::addmm"]) == (1, 1, 0)
    assert (together["aten::mm"], together["aten::add"], together["aten::addmm"]) == (0, 0, 1)
    assert (batched["aten::bmm"], batched["aten::mm"]) == (1, 0)


def test_linear_adds_its_bias_inside_addmm(per_call: Callable[..., Counter[str]]) -> None:
    found = per_call("linear")
    assert (found["aten::linear"], found["aten::t"], found["aten::addmm"], found["aten::add"]) == (
        1,
        1,
        1,
        0,
    )
    assert per_call("linear", no_bias=True)["aten::addmm"] == 0


def test_the_gated_mlp_is_three_linears_a_gelu_and_a_product(
    per_call: Callable[..., Counter[str]],
) -> None:
    found = per_call("mlp")
    assert (found["aten::linear"], found["aten::gelu"], found["aten::mul"], found["aten::mm"]) == (
        3,
        1,
        1,
        3,
    )
    trained = per_call("mlp", backward=True)
    assert (trained["aten::mm"], trained["aten::gelu_backward"]) == (9, 1)


def test_a_mask_in_place_spares_the_copy(per_call: Callable[..., Counter[str]]) -> None:
    naive, inplace, flash = (
        per_call("attention", variant) for variant in ("naive", "inplace", "flash")
    )
    assert naive["aten::clone"] - inplace["aten::clone"] == 1
    assert (naive["aten::bmm"], inplace["aten::bmm"], flash["aten::bmm"]) == (2, 2, 0)
    assert flash["aten::_scaled_dot_product_flash_attention_for_cpu"] == 1


@pytest.mark.sweep
def test_the_optimizers_of_a_training_step(per_call: Callable[..., Counter[str]]) -> None:
    loop, foreach, fused = (
        per_call("train_step", variant) for variant in ("forloop", "foreach", "fused")
    )
    for found in (loop, foreach, fused):
        assert (found["forward"], found["backward"], found["optimizer"]) == (1, 1, 1)
    assert (loop["aten::_foreach_addcdiv_"], foreach["aten::_foreach_addcdiv_"]) == (0, 1)
    assert fused["aten::_fused_adamw_"] == 1
    assert loop["aten::addcdiv_"] > 10


def test_without_a_cpp_compiler_compiling_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingError, match="install g"):
        ladder.run(ladder.rung("linear"), Choice(compile=True, device="cpu"), tmp_path)
