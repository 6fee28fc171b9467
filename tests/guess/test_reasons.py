"""Every reason that the project knows, on a recorded trace where it is the reason, and near misses
where it is not.
"""

from __future__ import annotations

import pytest

from foretrace.guess import check
from foretrace.guess.reason import Reason, every
from foretrace.schema.verdict import Verdict
from guess.conftest import recorded

NEAR = [(reason, text) for reason in every() for text in reason.near]
# They miss on every recorded trace, for no reason that has to do with a memset, a copy or a name.
PLAIN = [
    "bound is comms",
    "gpu idle > 100%",
    "gpu busy > 100%",
    "gpu time < 1 ns",
    "gpu time < 0.001x of A",
    "kernels == 123456",
    "memset == 123456",
    "memcpy == 123456",
    "sync == 123456",
    "no gemm has layout",
    "kernel time < 1 ns",
    "gemm, gemm, gemm, sort",
]
TRACES = sorted({reason.trace for reason in every()})


def marked(reason: Reason, text: str) -> Verdict:
    [verdict] = check(
        recorded(reason.trace), text, recorded(reason.against) if reason.against else None
    )
    return verdict


@pytest.mark.parametrize("reason", every(), ids=lambda reason: reason.name)
def test_the_miss_is_explained(reason: Reason) -> None:
    verdict = marked(reason, reason.example)
    assert verdict.verdict == "miss"
    assert reason.text in verdict.why
    assert verdict.slice
    assert verdict.events


@pytest.mark.parametrize(
    ("reason", "text"), NEAR, ids=lambda part: part if isinstance(part, str) else part.name
)
def test_a_near_miss_has_another_reason(reason: Reason, text: str) -> None:
    verdict = marked(reason, text)
    assert verdict.verdict == "miss"
    assert reason.text not in verdict.why


def test_every_reason_has_its_limits() -> None:
    assert [reason.name for reason in every() if len(reason.near) < 3] == []


@pytest.mark.parametrize("reason", every(), ids=lambda reason: reason.name)
def test_the_example_has_one_reason(reason: Reason) -> None:
    verdict = marked(reason, reason.example)
    assert [other.name for other in every() if other.text in verdict.why] == [reason.name]


@pytest.mark.parametrize("name", TRACES)
def test_plain_misses_are_left_alone(name: str) -> None:
    verdicts = check(recorded(name), PLAIN, recorded("mlp_eager"))
    assert {
        verdict.text: verdict.why
        for verdict in verdicts
        if verdict.verdict == "miss" and verdict.why
    } == {}
    assert sum(verdict.verdict == "miss" for verdict in verdicts) >= 10


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
