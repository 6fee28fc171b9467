"""nn.Modules of a trace: names, calls, and the work in and below them."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from corpus.places import RECORDED
from foretrace.model.modules import class_of

MODULES = Path(__file__).parents[1] / "recorded" / "llama_train_modules.json.gz"


def test_modules_count_what_their_submodules_launch() -> None:
    trace = ft.open(MODULES, cache=False)
    found = {module.name: module for module in trace.modules.rows}
    norm, layer = found["LlamaRMSNorm_0"], found["LlamaDecoderLayer_0"]
    assert (norm.kind, norm.calls, norm.kernels) == ("LlamaRMSNorm", 2, 16)
    assert norm.path == ("LlamaForCausalLM_0", "LlamaModel_0", "LlamaDecoderLayer_0")
    inside = [module for module in found.values() if module.path[-1:] == (layer.name,)]
    assert layer.kernels == sum(module.kernels for module in inside) + 2 * 2  # residual sums
    assert layer.gpu_ns > sum(module.gpu_ns for module in inside)


def test_a_trace_without_modules() -> None:
    trace = ft.open(RECORDED / "mlp_eager.json.gz", cache=False)
    assert trace.modules.rows == []
    assert set(trace.modules.own.tolist()) == {-1}


def test_the_class_of_a_module() -> None:
    assert class_of("nn.Module: LlamaRMSNorm_3") == "LlamaRMSNorm"
    assert class_of("nn.Module: My_Block_12") == "My_Block"
    assert class_of("nn.Module: Odd") == "Odd"
