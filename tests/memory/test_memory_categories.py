"""What each allocation is: by its pass and its release, and as the program's own names have it."""

from __future__ import annotations

import numpy as np
import pytest

from drawn_snapshot import (
    ADAM,
    BACKWARD,
    BLOCK,
    BUILD,
    LOOP,
    MODEL,
    ZERO,
    DrawnSnapshot,
    named,
    path_of,
    recorded,
    truth,
)
from foretrace.trace.allocator.categories import CATEGORIES, by_category
from foretrace.trace.allocator.view import MemoryView

FROM_START = [name for name, each in truth().items() if each["bad"]["from_start"]]
CUBLAS = 33_554_432
KINDS = {"parameter": "parameters", "gradient": "gradients", "optimizer": "optimizer state"}


def kinds(view: MemoryView) -> list[str]:
    return [CATEGORIES[number] for number in view.category.tolist()]


def trained(steps: int = 2) -> DrawnSnapshot:
    """A model of one weight: its forward and backward pass, AdamW, `zero_grad`."""
    drawn = DrawnSnapshot()
    drawn.alloc(400, BUILD)
    for number in range(steps):
        batch = drawn.alloc(30, LOOP)
        saved, passing = drawn.alloc(70, BLOCK), drawn.alloc(11, BLOCK)
        drawn.free(passing)
        gradient, between = drawn.alloc(400, BACKWARD), drawn.alloc(71, BACKWARD)
        drawn.free(saved, between, batch)
        if not number:
            drawn.alloc(400, ADAM), drawn.alloc(400, ADAM)
        update = drawn.alloc(401, ADAM)
        drawn.free(update)
        drawn.step()
        drawn.free(gradient, stack=ZERO)
    return drawn


def test_a_training_step_has_every_category() -> None:
    assert kinds(trained().view) == [
        "parameters",
        "inputs",
        "activations",
        "temporaries",
        "gradients",
        "temporaries",
        "optimizer state",
        "optimizer state",
        "temporaries",
        "inputs",
        "activations",
        "temporaries",
        "gradients",
        "temporaries",
        "temporaries",
    ]


def test_what_predates_the_history_is_told_by_the_sizes_of_the_gradients() -> None:
    drawn = DrawnSnapshot()
    for _ in range(3):
        drawn.before(400)  # a weight, and two tensors of AdamW
    drawn.before(CUBLAS)
    drawn.before(900)  # has no gradient: a frozen weight
    for _ in range(2):
        saved, gradient = drawn.alloc(70, BLOCK), drawn.alloc(400, BACKWARD)
        drawn.free(saved)
        drawn.step()
        drawn.free(gradient, stack=ZERO)
    view = drawn.view
    held = by_category(view.lives.size, view.category, np.flatnonzero(view.lives.before))
    assert held == {"workspaces": CUBLAS, "parameters": 1300, "optimizer state": 800}


def test_owners_decide_over_sizes_and_passes() -> None:
    drawn = DrawnSnapshot()
    addr = drawn.alloc(50, LOOP)
    drawn.owners.append([addr, 50, "parameter", "head.weight"])
    assert kinds(drawn.view) == ["parameters"]
    assert drawn.view.module(0) == "head"


def test_without_a_backward_pass_what_outlives_the_model_is_held_for_one() -> None:
    drawn = DrawnSnapshot()
    weight = drawn.alloc(400, BUILD)
    saved, passing = drawn.alloc(70, MODEL), drawn.alloc(11, BLOCK)
    drawn.free(passing)
    out = drawn.alloc(5, BLOCK)
    drawn.alloc(6, LOOP)
    drawn.free(saved, out)
    assert kinds(drawn.view) == ["parameters", "activations", "temporaries", "activations", "kept"]
    assert weight == int(drawn.view.lives.addr[0])


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", [each for each in FROM_START if path_of(each).exists()])
def test_categories_are_those_of_the_programs_own_tensors(name: str) -> None:
    """Of a program that was recorded from its start, without the names of its tensors."""
    view = recorded(name)
    owners = {owner[0]: KINDS[owner[2]] for owner in truth()[name]["bad"]["owners"]}
    rows = [row for row in np.flatnonzero(view.lives.kept) if int(view.lives.addr[row]) in owners]
    assert len(rows) == len(owners)
    found = [CATEGORIES[int(view.category[row])] for row in rows]
    assert found == [owners[int(view.lives.addr[row])] for row in rows]


@pytest.mark.parametrize("name", ["ckpt_long", "outlive"])
def test_a_history_that_began_late_has_the_right_bytes_by_category(name: str) -> None:
    """Which tensor of a size is the weight is not in the snapshot; how many bytes are, is."""
    view, truly = recorded(name), named(name)
    mine, theirs = (by_category(v.lives.size, v.category, v.holders) for v in (view, truly))
    for kind in ("parameters", "optimizer state"):
        assert mine[kind] == pytest.approx(theirs[kind], rel=0.1)
