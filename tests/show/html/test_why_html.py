"""The page of `why`, and the tab of a report that shows the same."""

from __future__ import annotations

from foretrace.read.recordings import find
from foretrace.show.html.report import compiled_code
from opened_traces import opened


def test_code_stands_beside_its_source_and_pairs_have_a_cost() -> None:
    found = compiled_code(opened(find("mlp_why")))
    assert found is not None
    generated = next(kernel for kernel in found.kernels if kernel.language == "triton")
    assert any("gelu" in code for _, code in generated.lines)
    assert "tl.store" in generated.code
    assert "\n" in generated.code
    assert "90.8 us" in str(found.not_fused)
    assert compiled_code(opened(find("mlp_eager"))) is None
