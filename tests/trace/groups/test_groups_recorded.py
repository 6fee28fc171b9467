"""Groups of recorded traces: exact counts, and patterns against the truth of recorded modules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import foretrace as ft
from corpus.places import RECORDED
from foretrace.look.rules.training import optimizer_rows
from foretrace.trace import module_calls
from foretrace.trace.flame import RAN, FlameViews
from foretrace.trace.trace import Trace
from opened_traces import opened

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"
LIGHTNING = MODULES.parent / "pages/how-to-lightning/traces/lightning_fit.json.gz"
_MODEL = "4x512x4x768x12x3072x32000_bf16"


def counts(trace: Trace) -> dict[str, int]:
    return dict(Counter(trace.work_groups.tolist()))


def recording(name: str) -> Trace:
    return opened(RECORDED / "ladder" / f"{name}_{_MODEL}.json.gz")


def test_patterns_agree_with_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    by_module = opened(MODULES).work_groups
    monkeypatch.setattr(module_calls, "PREFIX", "no module: ")
    trace = ft.open(MODULES, cache=False)
    assert not trace.module_calls.is_module.any()
    assert trace.work_groups.tolist() == by_module.tolist()


def test_a_training_step_with_modules() -> None:
    """Two steps of two layers: five norms of 8 kernels forward and 16 backward."""
    found = counts(opened(MODULES))
    assert found["RMSNorm"] == 2 * 5 * (8 + 16)
    assert found["SwiGLU"] == 2 * 2 * (2 + 3)
    assert found["GEMM"] == 2 * (2 * 7 + 1 + 1)  # with the matmul of RoPE's tables
    assert found["GEMM backward"] == 2 * 2 * (2 * 7 + 1)
    assert found["KV cache"] == 2 * 2 * 2
    assert "casts" not in found


def test_a_compiled_model() -> None:
    """The kernel that lists attention among its origins turns queries and keys."""
    found = counts(recording("model_compiled"))
    assert found["attention"] == 3 * 4 * 2  # cuDNN's kernel and its memset
    assert found["RoPE"] == 3 * (4 + 1)
    assert found["RMSNorm"] == 3 * 9
    assert found["SwiGLU"] == 3 * 4
    assert found["GEMM"] == 3 * (4 * 7 + 1 + 1)


def test_the_backward_pass_follows_its_forward_ops() -> None:
    """Twelve layers by hand: nothing of the norms is left among pointwise kernels."""
    found = counts(opened(RECORDED / "llama_train_eager.json.gz"))
    assert found["RMSNorm"] == 3 * 25 * (8 + 16)
    assert found["SwiGLU"] == 3 * 12 * (2 + 3)
    assert found["residual add"] == 3 * 12 * 2
    assert "pointwise" not in found


def test_attention_by_hand_is_whole() -> None:
    """Matmuls, mask, softmax and the copy between them; cuBLAS's memset is not part of it."""
    name = "attention_naive_8x16x1024x64_bf16.json.gz"
    found = counts(opened(RECORDED / "ladder" / name))
    assert found == {"attention": 3 * 6, "fills": 3}


def test_what_the_closure_of_a_step_runs_is_not_the_optimizers() -> None:
    """Lightning trains inside of `optimizer.step`; only foreach ops are the optimizer's own."""
    trace = opened(LIGHTNING)
    ops = np.array([trace.host.names[name] for name in trace.host.name[trace.origins.op]])
    foreach = np.char.startswith(ops, "aten::_foreach_")
    assert counts(trace)["GEMM"] == 3 * 2
    stepped = trace.work_groups == "optimizer"
    assert foreach[stepped].all()
    assert foreach[optimizer_rows(trace)].all()
    ran = FlameViews(trace).gpu_ran
    assert {RAN[number] for number in ran[ops == "aten::addmm"]} == {"forward"}
    assert {RAN[number] for number in ran[stepped]} == {"optimizer"}
