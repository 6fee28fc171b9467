"""Statements of `compare` that were false, one test each."""

from __future__ import annotations

import pytest

from compare.traces import recorded
from foretrace.compare import Comparison, compare
from foretrace.compare.lines import comparison_text
from foretrace.look import look
from opened_traces import opened
from statements.places import OWN


@pytest.fixture(scope="module")
def gemma() -> Comparison:
    """A Gemma-shaped model of 12 layers, eager and compiled, on an H200 with torch 2.11."""
    a, b = (opened(OWN / f"gemma_{name}.json.gz") for name in ("eager", "compiled"))
    return compare(a, b)


def test_all_kernels_that_replaced_others_are_counted(gemma: Comparison) -> None:
    """Gemma eager against compiled: one of several Triton kernels a layer stood for all of them."""
    fused = [row for row in gemma.work if row.how.startswith("fused by Inductor")]
    triton = [each for each in gemma.b.kernels if each.family == "inductor_triton"]
    # two kernels are pairs of their own: the first matmul's operand and the last sum
    assert sum(row.b - row.copies_b for row in fused) >= len(triton) - 2
    assert sum(row.ns_b or 0 for row in fused) >= 0.99 * sum(each.length_ns or 0 for each in triton)
    for side in ("a", "b"):
        spent = sum(getattr(row, f"ns_{side}") or 0 for row in gemma.work)
        assert spent == getattr(gemma.gpu_ns, side)


def test_no_change_is_listed_twice(gemma: Comparison) -> None:
    """Gemma's nine fused RMSNorms were nine sentences of one change."""
    names = [(row.group, row.fate, row.how) for row in gemma.work]
    assert len(names) == len({*names})
    assert len(comparison_text(gemma, 12).splitlines()) <= 25


def test_profiled_times_do_not_decide() -> None:
    """`compare` on the shipped MLP pair said "Worth it? No" from profiled times."""
    found = compare(recorded("mlp_eager"), recorded("mlp_compiled"))
    assert found.verdict.answer == "inconclusive"
    assert found.worth.saves_ns_per_call is None
    assert "foretrace record" in found.verdict.text


def test_run_records_decide() -> None:
    """The same pair with run records saves 12 us a call."""
    found = compare(recorded("mlp eager"), recorded("mlp compiled"))
    assert (found.verdict.answer, found.verdict.basis) == ("faster", "run records")
    assert found.verdict.text.startswith(
        "12.0 us (6.67 us to 17.3 us) less per call: 242 to 230 us without the profiler"
    )


def test_one_kernel_has_one_traffic() -> None:
    """The kernel of gelu and mul had 101 MB in `look` and 151 MB in `compare`."""
    found = compare(recorded("mlp_eager"), recorded("mlp_compiled"))
    for side in (found.a, found.b):
        shown = {(row.name, row.bytes) for row in look(side.trace).kernels}
        assert all((kernel.name, kernel.bytes) in shown for kernel in side.kernels)


def test_two_programs_are_not_compared_kernel_by_kernel() -> None:
    """An MLP's training step against a model's: nothing said to replace anything."""
    found = compare(recorded("linear_compiled"), recorded("mlp_eager_train"))
    page = comparison_text(found, 12)
    assert found.verdict.answer == "slower"  # by far, whatever the programs are
    assert "two programs" in page
    assert "fused by" not in page


@pytest.mark.parametrize(
    ("a", "b", "ops"),
    [
        ("mlp_eager", "mlp_compiled", {"aten::gelu"}),
        ("attention naive", "attention flash", {"aten::bmm"}),
        ("optimizer loop", "optimizer fused", {"aten::addcdiv_"}),
    ],
)
def test_what_a_pair_saves_is_less_than_it_took(a: str, b: str, ops: set[str]) -> None:
    """A saving is never larger than the time it is taken from."""
    found = compare(recorded(a), recorded(b))
    rows = [
        row
        for row in found.work
        if any(ops & {*each.path} for part in row.places for each in (*part.a, *part.b))
    ]
    taken = sum(row.ns_a or 0 for row in rows)
    assert 0 < sum(row.saved_ns for row in rows) < taken <= (found.gpu_ns.a or 0)
