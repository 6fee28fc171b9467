from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel

COUNT = 48


def averaged(sketch: Sketch, shapes: int = 4, between: bool = False) -> None:
    sketch.op("aten::mm", kernel(GEMM, 50), dims=[[64, 64], [64, 64]])
    for place in range(COUNT):
        size = [64, 64 << place % shapes]
        sketch.op("aten::lerp_", kernel(ADD, 2), us=20, dims=[size, size])
        if between:
            sketch.op("aten::mm", kernel(GEMM, 5), dims=[[64, 64], [64, 64]])


def test_one_call_updates_all_tensors(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(averaged)
    assert found.order == "torch._foreach_lerp_ over all tensors, not a loop"
    assert found.why == "48 calls of lerp_ on one tensor each"
    assert now > COUNT * 20
    assert then < 0.4 * now


def test_optimizers_short_runs_and_equal_shapes_stay(fix: FixUnderTest) -> None:
    def optimizer(sketch: Sketch) -> None:
        averaged(sketch.region("Optimizer.step#SGD.step"))

    fix.stays(
        optimizer, lambda made: averaged(made, between=True), lambda made: averaged(made, shapes=1)
    )


def updated(sketch: Sketch, names: str) -> None:
    sketch.op("aten::mm", kernel(GEMM, 50), dims=[[64, 64], [64, 64]])
    for place in range(COUNT):
        size = [64, 64 << place % 4]
        for name in names.split():
            sketch.op(f"aten::{name}", kernel(ADD, 2), us=20, dims=[size])


def test_a_loop_of_several_ops_is_named_by_what_it_does(fix: FixUnderTest) -> None:
    orders = {
        "mul_ add_ mul_ addcmul_ sqrt add addcdiv_": "torch.optim.AdamW(..., fused=True)",
        "mul mul add copy_": "torch._foreach_lerp_",
        "linalg_vector_norm mul_": "torch.nn.utils.clip_grad_norm_",
    }
    for names, order in orders.items():
        (found,) = fix.proposals(lambda made, names=names: updated(made, names))
        assert found.order.startswith(order)
        assert len(found.change.gone) == COUNT * len(names.split()) - 1


def test_a_chain_that_writes_nothing_in_place_stays(fix: FixUnderTest) -> None:
    fix.stays(lambda made: updated(made, "mul add"))


def test_an_optimizer_of_ones_own_is_a_loop_too(fix: FixUnderTest) -> None:
    def own(sketch: Sketch) -> None:
        updated(sketch.region("Optimizer.step#Lion.step"), "mul_ add_ sign add_")

    assert len(fix.proposals(own)) == 1
