"""Every reason that the project knows, on a recorded trace where it is the reason."""

from __future__ import annotations

import pytest

from foretrace.guess import check
from foretrace.guess.reason import Reason, every
from guess.conftest import recorded


@pytest.mark.parametrize("reason", every(), ids=lambda reason: reason.name)
def test_the_miss_is_explained(reason: Reason) -> None:
    against = recorded(reason.against) if reason.against else None
    [verdict] = check(recorded(reason.trace), reason.example, against)
    assert verdict.verdict == "miss"
    assert reason.text in verdict.why
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
    assert kernels.filter(kernels["id"].is_in(verdict.events))["op_name"].to_list() == ["aten::gelu", "aten::mul"]
