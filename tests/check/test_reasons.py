"""Every reason that the project knows, on a recorded trace where it is the reason, and near misses
where it is not.
"""

from __future__ import annotations

from check.conftest import recorded
from foretrace.check import check
from foretrace.check.kinds import Reason
from foretrace.check.marking import every_reason
from foretrace.check.verdict import Verdict
from sweep import looped

# reason | a recorded trace where its example misses | against | what misses there for other reasons
TRIALS = """
added_in_place | matmul_add_4096_compiled | matmul_add_4096_eager | in matmul_add: same ops as A; in matmul_add: kernels == A; in matmul_add: bound is comms
addmm_copy | matmul_add_64_compiled | | in matmul_add: memcpy == 2; in matmul_add: bound is compute; in matmul_add: gpu idle < 1%; in matmul_add: memset == 2; in matmul_add: gpu time < 1 ns
compiled_overhead | linear_compiled | linear_eager | in linear_fwd: cpu time < 1 us; in linear_fwd: gpu time < 0.1x of A; in linear_fwd: cpu time > 100x of A
evaluation_order | mlp_eager | | in mlp_fwd: gate, up, gelu, mul; in mlp_fwd: gate, up, silu, mul, down; mul before gelu
final_sync | linear_eager | | sync == 2; call cudaDeviceSynchronize == 3; memcpy == 1; gpu idle < 1%
hopper_names | linear_eager | | no gemm is nvjet; every gemm is fp32; every gemm is flash
masked_lanes | mlp_liger | mlp_compiled | in mlp_fwd: gpu time < 0.5x of A; in mlp_fwd: gemm time < 0.1x of A; in mlp_fwd: pointwise time > 2x of A; gpu idle < 0.001%
occupancy_query | mlp_eager | | every pointwise is preceded by cudaOccupancy*; every gemm is preceded by cudaMalloc; every gemm is launched by cudaOccupancy*
matmul_memset | mlp_eager | | in mlp_fwd: memset == 3; bound is comms; gpu idle < 1%; in mlp_fwd: gpu time < 1 us; kernels == 4; in mlp_fwd: memcpy == 1
triton_launch | mlp_compiled | | every gemm is launched by cudaLaunchKernel; every pointwise is preceded by cudaLaunchKernel; no pointwise is launched by cuLaunchKernel
vector_width | mlp_eager | | every pointwise has vec 2; no pointwise has vec 8; every gemm has registers 4
whole_trace | mlp_eager | | steps == 1; kernels == 4; kernels < 5; memcpy == 1; sync == 3; aten::mm >= 10
"""
ROWS = [[part.strip() for part in line.split("|")] for line in TRIALS.strip().splitlines()]
TRIED = {name: (trace, against, near.split("; ")) for name, trace, against, near in ROWS}
NEAR = [(reason, text) for reason in every_reason() for text in TRIED[reason.name][2]]


def marked(reason: Reason, text: str) -> Verdict:
    trace, against, _ = TRIED[reason.name]
    [verdict] = check(recorded(trace), text, recorded(against) if against else None)
    return verdict


@looped(("reason", "text"), NEAR, ids=lambda part: part if isinstance(part, str) else part.name)
def test_a_near_miss_has_another_reason(reason: Reason, text: str) -> None:
    verdict = marked(reason, text)
    assert verdict.verdict == "miss"
    assert reason.text not in verdict.why


@looped("reason", every_reason(), ids=lambda reason: reason.name)
def test_the_example_has_one_reason(reason: Reason) -> None:
    verdict = marked(reason, reason.example)
    assert [other.name for other in every_reason() if other.text in verdict.why] == [reason.name]
    assert verdict.verdict == "miss"
    assert verdict.slice
    assert verdict.events


def test_a_miss_that_nothing_explains_gives_no_reason() -> None:
    [verdict] = check(recorded("mlp_eager"), "in mlp_fwd: gemm == 4")
    assert (verdict.verdict, verdict.why) == ("miss", "")


def test_the_slice_shows_the_kernels_and_their_chain() -> None:
    [verdict] = check(recorded("mlp_eager"), "in mlp_fwd: gelu and mul are fused")
    assert verdict.slice == (
        "call 1 of mlp_fwd:",
        " 33.2 us  gelu · cudaLaunchKernel · aten::gelu",
        " 36.7 us  mul bf16 · cudaLaunchKernel · aten::mul",
    )
    kernels = recorded("mlp_eager").kernels
    assert kernels.filter(kernels["id"].is_in(verdict.events))["op_name"].to_list() == [
        "aten::gelu",
        "aten::mul",
    ]
