"""Which shapes a sweep visits, and in which order; no torch."""

from __future__ import annotations

import pytest

from foretrace.base.errors import UsageError
from foretrace.learn.ladder import rung, rungs
from foretrace.record.experiments.shapes import shape_text, swept


def test_the_last_one_named_changes_fastest() -> None:
    found = swept(rung("mlp"), ["batch=8, 16", "seq=64,128", "dim=32"])
    assert [tuple(shape.values()) for shape in found] == [
        (8, 64, 32),
        (8, 128, 32),
        (16, 64, 32),
        (16, 128, 32),
    ]
    assert shape_text(found[0]) == "batch 8, seq 64, dim 32"


def test_switches_and_choices_may_be_set() -> None:
    assert swept(rung("mlp"), ["backward=true"]) == ({"backward": True},)
    assert swept(rung("matmul_add"), ["bias=1d,2d"]) == ({"bias": "1d"}, {"bias": "2d"})


def test_the_usual_sweep_of_an_mlp_changes_batch_length_and_weights() -> None:
    found = swept(rung("mlp"), [], small=True)
    assert [tuple(shape.values()) for shape in found] == [
        (4, 32, 512),
        (8, 32, 512),
        (16, 32, 512),
        (4, 64, 512),
        (8, 64, 512),
        (4, 32, 1024),
    ]
    assert swept(rung("mlp"), [])[0] == {"batch": 64, "seq": 128, "hidden": 3072}


def test_every_rung_has_a_usual_sweep_of_different_shapes() -> None:
    for each in rungs():
        found = swept(each, [], small=True)
        assert len(found) > 2, each.name
        assert len({tuple(shape.items()) for shape in found}) == len(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["heads=2"],
            "'heads=2' is not a sweep of mlp: write NAME=VALUE,VALUE with one of batch, seq, dim, "
            "hidden, backward",
        ),
        (["batch"], "'batch' is not a sweep of mlp"),
        (["batch=8,x"], "batch cannot be 'x': it must be a whole number"),
        (["batch=-1"], "it must be a whole number"),
        (["backward=maybe"], "backward cannot be 'maybe': choose from true, false"),
        (["batch=8", "batch=16"], "batch is swept twice"),
    ],
)
def test_what_is_no_sweep_is_wrong_usage(given: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        swept(rung("mlp"), given)
