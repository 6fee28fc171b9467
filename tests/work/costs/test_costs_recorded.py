"""Costs of what was really recorded: every kernel whose op has shapes is priced, and the famous
numbers are exact.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from recorded_calls import RECORDED, Launched, kernels, launched

from foretrace.work import costs
from foretrace.work.costs import Certainty, Cost, element_type
from foretrace.work.costs._cost import UNSIZED
from foretrace.work.costs.limits import occupancy

MATMULS = {"aten::mm", "aten::addmm", "aten::bmm"}
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES")
# Ops whose arguments do not name what they move; nothing is claimed for them.
UNKNOWABLE = {"vllm::moe_forward", "vllm::unified_attention_with_output", "aten::index"}


def priced(op: Launched) -> Cost | None:
    return costs.cost(replace(op.call, list_type=element_type(op.kernels[0]["name"])))


def recorded(name: str) -> Path:
    return next(path for path in RECORDED if path.name == f"{name}.json.gz")


@pytest.fixture(
    params=RECORDED, ids=lambda path: path.name.removesuffix(".json.gz"), scope="module"
)
def recorded_path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def mlp() -> Counter[tuple[str, Cost | None]]:
    """How often each op of the eager MLP had each cost."""
    return Counter((op.call.name, priced(op)) for op in launched(recorded("mlp_eager")))


def test_every_kernel_whose_op_has_shapes_gets_bytes(recorded_path: Path) -> None:
    ops = [(op, priced(op)) for op in launched(recorded_path)]
    for op, cost in ops:
        assert cost is not None, op.call
        assert cost.bytes is not None or cost.note == UNSIZED.note, op.call
    matmuls = [cost for op, cost in ops if op.call.name in MATMULS]
    assert matmuls
    assert all(cost is not None and cost.flops and cost.bytes for cost in matmuls)


class TestTheMlp:
    """The GeGLU MLP at 64 x 128 x 768, hidden 3072, bf16."""

    def test_three_matmuls_of_the_same_size(self, mlp: Counter[tuple[str, Cost | None]]) -> None:
        matmuls = [(cost, count) for (name, cost), count in mlp.items() if name == "aten::mm"]
        assert {cost.flops for cost, _ in matmuls if cost} == {38_654_705_664}
        assert sum(count for _, count in matmuls) == 9, "three a step, three steps"
        assert {cost.bytes for cost, _ in matmuls if cost} == {
            2 * (8192 * 768 + 768 * 3072 + 8192 * 3072)
        }

    def test_gelu_and_mul(self, mlp: Counter[tuple[str, Cost | None]]) -> None:
        assert mlp["aten::gelu", Cost(25_165_824, 50_331_648, 50_331_648)] == 3
        assert mlp["aten::mul", Cost(25_165_824, 100_663_296, 50_331_648)] == 3

    def test_liger_moves_each_tensor_once(self) -> None:
        liger = [
            priced(op)
            for op in launched(recorded("mlp_liger"))
            if op.call.name == "LigerGELUMulFunction"
        ]
        assert liger == [Cost(None, 100_663_296, 50_331_648)] * 3

    def test_the_fused_kernel_reads_its_arguments_and_writes_one(self) -> None:
        """The counters of an H200 read 98.9 MB and wrote 52.4 MB (docs/costs.md)."""
        fused = [
            priced(op)
            for op in launched(recorded("mlp_compiled"))
            if op.call.name.startswith("triton_")
        ]
        found = [(cost.bytes_read, cost.bytes_written, cost.least) for cost in fused if cost]
        assert found == [(100_663_296, 50_331_648, 100_663_296)] * 3
        assert {cost.certainty for cost in fused if cost} == {Certainty.ESTIMATE}


def test_a_square_matmul_of_4096() -> None:
    ops = {op.call.name: priced(op) for op in launched(recorded("matmul_add_4096_eager"))}
    assert ops == {
        "aten::mm": Cost(137_438_953_472, 67_108_864, 33_554_432),
        "aten::add": Cost(16_777_216, 67_108_864, 33_554_432),
    }


def test_occupancy_agrees_with_the_profiler_wherever_it_has_a_figure(recorded_path: Path) -> None:
    """The profiler's figure is the smaller of what the footprint allows and what the grid fills, or
    0 for no data.
    """
    for kernel in kernels(recorded_path):
        args = kernel["args"]
        threads, blocks = (
            args[name][0] * args[name][1] * args[name][2] for name in ("block", "grid")
        )
        allowed = occupancy(args["registers per thread"], args["shared memory"], threads, "sm_90")
        assert allowed is not None
        filled = blocks * -(-threads // 32) / 132 / 64
        shown = args["est. achieved occupancy %"]
        assert shown == 0 or abs(100 * min(allowed, filled) - shown) <= 1


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
@pytest.mark.parametrize(
    "path", sorted(Path(PUBLIC or ".").glob("*.json.gz")), ids=lambda path: path.name
)
def test_public_traces_are_priced(path: Path) -> None:
    """Every op with shapes has bytes, save those whose arguments do not name what they move."""
    ops = [(op, priced(op)) for op in launched(path)]
    assert {op.call.name for op, cost in ops if cost is None or cost.bytes is None} <= UNKNOWABLE
    assert all(cost and cost.flops for op, cost in ops if op.call.name in MATMULS)
