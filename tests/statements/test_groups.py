"""Statements about what kernels are for that were false once."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from foretrace.work import families
from look.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made, opened
from statements.places import OWN, ladder

MODEL = "4x512x4x768x12x3072x32000"


def names_in(trace: ft.Trace, group: str) -> list[str]:
    rows = trace.work_groups == group
    return [trace.host.names[number] for number in trace.host.name[trace.gpu.id[rows]]]


def test_a_kernel_that_lists_attention_among_its_origins_is_not_attention() -> None:
    """Llama compiled: attention ran in cuDNN, not "in one pointwise kernel"."""
    trace = ladder(f"model_compiled_{MODEL}")
    assert len(names_in(trace, "attention")) == 3 * 4 * 2
    found = {families.decode(name).family for name in names_in(trace, "attention")}
    assert found == {"cudnn_sdpa", "memcpy_memset"}


def test_a_kernel_that_lists_a_matmul_among_its_origins_is_not_a_matmul() -> None:
    """Llama compiled: 30 matmuls a step; pointwise kernels that list `bmm` are not counted."""
    names = names_in(ladder(f"model_compiled_{MODEL}"), "GEMM")
    assert len(names) == 3 * (4 * 7 + 1 + 1)
    assert not [name for name in names if name.startswith("triton_poi_")]


def test_the_copy_between_the_matmuls_of_attention_is_part_of_it() -> None:
    """Attention by hand: masked_fill copies the scores, and a fused kernel does not."""
    trace = ladder("attention_naive_8x16x1024x64")
    assert "Memcpy DtoD (Device -> Device)" in names_in(trace, "attention")


def test_a_graph_replay_has_groups_without_any_op() -> None:
    """A replay has no ops: 17 norms a decode, 8 kernels each, known by their order alone."""
    trace = opened(OWN / "graph_replay.json.gz")
    text = trace.work_groups
    decodes = [span for span in trace.spans.regions if span.name.startswith("decode bs=")]
    assert len(decodes) == 9
    for span in decodes:
        assert (text[span.work] == "RMSNorm").sum() == 17 * 8
        assert (text[span.work] == "SwiGLU").sum() == 8 * 2


def test_a_collective_is_what_the_program_called(tmp_path: Path) -> None:
    """Two ranks of a recommender: "collectives 107 ms"; all-reduce and all-gather, by SendRecv."""
    send = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    sketch = Sketch().step().op("c10d::allreduce_ > record_param_comms", kernel(send, 40))
    sketch.op("c10d::_allgather_base_ > record_param_comms", kernel(send, 40))
    assert named(sketch, tmp_path) == ["all-reduce", "all-gather"]


def test_the_matmuls_of_experts_are_theirs(tmp_path: Path) -> None:
    """vLLM on a B200: "GEMM 6.00 ms"; 5.21 ms of it are the experts'."""
    sketch = Sketch().step().op("vllm::moe_forward", kernel(GEMM, 40))
    sketch.op("aten::linear > aten::mm", kernel(GEMM, 10))
    assert named(sketch, tmp_path) == ["MoE GEMM", "GEMM"]


def named(sketch: Sketch, folder: Path) -> list[str]:
    return list(open_made(sketch, folder).work_groups)
