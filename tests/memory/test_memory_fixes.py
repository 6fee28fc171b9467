"""Each fix on a drawn snapshot with exact bytes, and all of them on recorded pairs."""

from __future__ import annotations

import pytest

from drawn_snapshot import (
    ADAM,
    BACKWARD,
    BLOCK,
    BUILD,
    LOOP,
    LOSS,
    MODEL,
    ZERO,
    DrawnSnapshot,
    named,
    recorded,
    truth,
)
from foretrace.memory import fixes
from foretrace.memory.fixes import (
    NUMBERS,
    MemoryProposal,
    PeakPlan,
    largest_batch,
    peak_at_batch,
    peak_of,
    predicted,
)
from foretrace.trace.allocator.categories import by_category
from foretrace.trace.allocator.view import MemoryView

# the fix of each recorded pair, as the second program made it
PAIRS = {
    "ckpt_gpt": "checkpoint_blocks",
    "ckpt_mlp": "checkpoint_blocks",
    "ckpt_conv": "checkpoint_blocks",
    "ckpt_long": "checkpoint_blocks",
    "logits_128k": "smaller_logits",
    "fused_adam": "optimizer_in_place",
    "fused_adam_gpt": "optimizer_in_place",
    "zero_grad": "set_to_none",
    "zero_grad_gpt": "set_to_none",
    "accumulate": "accumulate",
    "bf16_params": "half_precision_state",
    "outlive": "earlier_release",
    "leak": "earlier_release",
    "no_grad": "inference_mode",
}


def proposed(fix: str, view: MemoryView) -> list[MemoryProposal]:
    return list(getattr(fixes, fix)(PeakPlan(view)))


def peak_with(fix: str, view: MemoryView) -> int:
    (proposal,) = proposed(fix, view)
    return peak_of(proposal.lives)


def blocks(drawn: DrawnSnapshot, count: int = 4) -> list[int]:
    """Blocks that keep 100 and pass on 10 each; the line of the loop adds their result."""
    kept = []
    for _ in range(count):
        kept += [drawn.alloc(100, BLOCK), drawn.alloc(10, ("model.py:21 forward", *MODEL[1:]))]
    return kept


def trained(steps: int = 2) -> DrawnSnapshot:
    drawn = DrawnSnapshot()
    for _ in range(steps):
        kept = blocks(drawn)
        for addr in reversed(kept):
            passing = drawn.alloc(5, BACKWARD)
            drawn.free(addr, passing)
        drawn.step()
    return drawn


def test_checkpointed_blocks_keep_their_inputs_alone() -> None:
    view = trained().view
    assert view.peak_bytes == 4 * 110 + 5
    (proposal,) = proposed("checkpoint_blocks", view)
    assert proposal.order == "checkpoint the 4 blocks called at model.py:21"
    # the inputs of all, the inside of one, and a gradient
    assert peak_of(proposal.lives) == 4 * 10 + 100 + 5
    assert "400 B of activations" in proposal.why


def test_memory_that_runs_out_in_the_first_forward_pass_is_advised_as_training() -> None:
    drawn = DrawnSnapshot()
    kept = blocks(drawn)
    drawn.oom(100, BLOCK)
    drawn.free(*kept[-2:])  # the exception lets go of the last block
    view = drawn.view
    assert by_category(view.lives.size, view.category, view.holders) == {"activations": 440}
    # the results of three blocks, and the whole of the last
    assert peak_with("checkpoint_blocks", view) == 3 * 10 + 110
    assert peak_with("accumulate", view) == 4 * (25 + 2)
    assert proposed("inference_mode", view) == []


def test_one_call_with_three_tensors_is_no_three_blocks() -> None:
    drawn = DrawnSnapshot()
    for _ in range(2):
        kept = [drawn.alloc(size, MODEL) for size in (500, 20, 10)]
        drawn.alloc(400, BACKWARD)
        drawn.free(*kept)
        drawn.step()
    assert proposed("checkpoint_blocks", drawn.view) == []


def test_a_quarter_of_the_batch_keeps_the_gradients_through_the_step() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(1000, BUILD)
    for _ in range(2):
        saved = drawn.alloc(400, BLOCK)
        gradient = drawn.alloc(1000, BACKWARD)
        drawn.free(saved)
        drawn.step()
        drawn.free(gradient, stack=ZERO)
    view = drawn.view
    assert view.peak_bytes == 2400
    assert peak_with("accumulate", view) == 1000 + 100 + 1000
    assert peak_at_batch(view, 2) == 2800
    assert largest_batch(view, 3300) == 3
    assert largest_batch(view, 2399) is None


def test_batch_norm_makes_a_split_batch_another_program() -> None:
    drawn = DrawnSnapshot()
    for _ in range(2):
        saved = drawn.alloc(400, ("/torch/nn/functional.py:5 batch_norm", *BLOCK))
        drawn.alloc(10, BACKWARD)
        drawn.free(saved)
        drawn.step()
    (proposal,) = proposed("accumulate", drawn.view)
    assert proposal.costs == NUMBERS
    assert proposal.cost.endswith("batch norm sees each part alone: compare the loss")


def losing(extra: int = 0) -> DrawnSnapshot:
    """Logits of 800, their loss, its gradients; blocks before that keep tensors of 800 too."""
    drawn = DrawnSnapshot()
    for _ in range(2):
        others = [drawn.alloc(800, BLOCK) for _ in range(extra)]
        others += [drawn.alloc(3, BLOCK) for _ in range(14)]
        logits, soft = drawn.alloc(800, MODEL), drawn.alloc(800, LOSS)
        first, second = drawn.alloc(800, BACKWARD), drawn.alloc(800, BACKWARD)
        drawn.free(logits, soft, first, second, *others)
        drawn.step()
    return drawn


def test_logits_in_eight_parts() -> None:
    view = losing().view
    assert view.peak_bytes == 3200 + 42
    assert peak_with("smaller_logits", view) == 400 + 42
    (proposal,) = proposed("smaller_logits", view)
    assert proposal.why.startswith("logits, their copies and gradients are 3.20 kB at the peak")


def test_tensors_of_the_same_size_far_from_the_loss_are_no_logits() -> None:
    """Attention scores of `written` are as large as its logits."""
    assert peak_with("smaller_logits", losing(extra=3).view) == 3 * 800 + 400 + 42
    proposals = proposed("smaller_logits", recorded("written"))
    assert all("3.15 GB" not in each.why for each in proposals)


def test_a_fused_optimizer_holds_no_updates() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(100, BUILD)
    for _ in range(2):
        drawn.free(drawn.alloc(70, ADAM))
        drawn.step()
        drawn.alloc(1, BLOCK)
    assert drawn.view.peak_bytes == 171
    assert peak_with("optimizer_in_place", drawn.view) == 102
    (proposal,) = proposed("optimizer_in_place", drawn.view)
    assert proposal.order == "AdamW(..., fused=True)"


def test_zero_grad_drops_gradients() -> None:
    drawn = DrawnSnapshot()
    drawn.owners.append([drawn.before(100), 100, "gradient", "w"])
    for _ in range(2):
        saved = drawn.alloc(60, BLOCK)
        passing = drawn.alloc(100, BACKWARD)
        drawn.free(saved, passing)
        drawn.step()
    assert drawn.view.peak_bytes == 260
    assert peak_with("set_to_none", drawn.view) == 160


def test_bf16_halves_weights_gradients_and_state() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(400, BUILD)
    state = 0
    for _ in range(2):
        copy, saved = drawn.alloc(200, BLOCK), drawn.alloc(70, MODEL)
        gradient = drawn.alloc(400, BACKWARD)
        drawn.free(copy, saved)
        state = state or drawn.alloc(800, ADAM)
        drawn.step()
        drawn.free(gradient, stack=ZERO)
    view = drawn.view
    assert view.peak_bytes == 400 + 800 + 200 + 70 + 400
    assert peak_with("half_precision_state", view) == 200 + 400 + 70 + 200
    assert proposed("half_precision_state", trained().view) == []  # nothing casts


def test_state_in_8_bits_takes_a_quarter_where_it_is_large() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(40_000, ADAM)
    drawn.alloc(16, ADAM)
    drawn.step()
    drawn.alloc(1, BLOCK)
    assert peak_with("eight_bit_state", drawn.view) == 10_000 + 16 + 1


def test_what_outlives_its_step_is_named_by_its_line() -> None:
    drawn = DrawnSnapshot()
    older: list[int] = []
    for _ in range(3):
        kept, other = drawn.alloc(90, ("train.py:7 step",)), drawn.alloc(90, MODEL)
        drawn.alloc(1, BACKWARD)
        drawn.free(other, *older)
        drawn.step()
        older = [kept]
    view = drawn.view
    assert view.peak_bytes == 3 * 90 + 3
    (proposal,) = proposed("earlier_release", view)
    assert proposal.order == "drop what train.py:7 in step made before the next step"
    assert proposal.why == "90 B of earlier steps are live at the peak"
    assert peak_of(proposal.lives) == 2 * 90 + 3


def test_inference_keeps_nothing_for_a_backward_pass() -> None:
    drawn = DrawnSnapshot()
    kept = [drawn.alloc(100, (f"model.py:{30 + at} forward", *MODEL[1:])) for at in range(6)]
    drawn.alloc(1, LOOP)
    drawn.free(*kept)
    assert drawn.view.peak_bytes == 601
    assert peak_with("inference_mode", drawn.view) == 301
    assert proposed("inference_mode", trained().view) == []


def test_a_cache_of_full_size_is_not_copied() -> None:
    drawn = DrawnSnapshot()
    cache = drawn.alloc(1000, BLOCK)
    for at in range(1, 20):
        longer = drawn.alloc(1000 + at, BLOCK)
        drawn.free(cache)
        cache = longer
    assert drawn.view.peak_bytes == 1018 + 1019
    assert peak_with("static_cache", drawn.view) == 1019


def test_expandable_segments_need_the_peak_in_pages() -> None:
    page = 2 << 20
    drawn = DrawnSnapshot()
    drawn.segment(9 * page)
    drawn.alloc(3 * page + 1)
    (proposal,) = proposed("expandable_segments", drawn.view)
    assert proposal.reserved == 5 * page
    assert proposed("expandable_segments", _reserving(9, expandable=True)) == []


def test_what_was_reserved_before_the_history_is_no_fragment() -> None:
    """An earlier peak may have needed it; the shared inference began after a training."""
    assert proposed("expandable_segments", _reserving(9, before=True)) == []
    assert proposed("expandable_segments", recorded("inference")) == []


def _reserving(pages: int, *, expandable: bool = False, before: bool = False) -> MemoryView:
    drawn = DrawnSnapshot(expandable_segments=expandable)
    drawn.reserved = pages * (2 << 20) if before else 0
    if not before:
        drawn.segment(pages * (2 << 20))
    drawn.alloc(3)
    return drawn.view


def test_free_fixes_come_first_and_those_that_change_numbers_last() -> None:
    # the split batch of a model with batch norm comes after checkpointing
    assert [each.name for each in predicted(recorded("ckpt_conv"))] == [
        "checkpoint_blocks",
        "accumulate",
    ]
    assert predicted(recorded("outlive"))[0].name == "earlier_release"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", PAIRS)
def test_the_predicted_peak_is_within_a_tenth_of_the_measured_one(name: str) -> None:
    view = named(name) if name.startswith("zero") else recorded(name)
    found = {each.name: each.peak_bytes for each in predicted(view)}
    assert found[PAIRS[name]] == pytest.approx(truth()[name]["good"]["requested_peak"], rel=0.1)
