"""Fusions in recorded pairs, with the compiler's records and by names alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec.structs import replace

import foretrace as ft
from compare.traces import recorded
from foretrace.compare import Comparison, compare, document
from foretrace.compare.changes import KernelPair
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.read.recordings import traces
from foretrace.trace.trace import Trace
from opened_traces import opened

COMPILED = Path(__file__).parents[1] / "data" / "compile" / "mlp" / "trace.json.gz"


@cache
def _eager() -> Trace:
    return opened(traces()["mlp_eager"])


def _against(compiled: Trace) -> Comparison:
    return compare(_eager(), compiled)


def test_the_records_outrank_the_name() -> None:
    """The name lists gelu and mul. Records that map neither of its nodes to mul leave mul out."""
    trace = ft.open(COMPILED, cache=False)
    known = dict(trace.compiled)

    def without_mul(launch: CompiledLaunch) -> CompiledLaunch:
        ops = launch.compilation.decompositions
        kept = {op: nodes for op, nodes in ops.items() if op != "mul"}
        return CompiledLaunch(replace(launch.compilation, decompositions=kept), launch.call)

    other = ft.open(COMPILED, cache=False)
    other.compiled = {event: without_mul(one) for event, one in known.items()}
    [fusion] = document(_against(other)).fusions
    assert (fusion.sign, fusion.replaces) == ("mapping", ("aten::gelu",))


def test_without_records_the_name_decides() -> None:
    trace = ft.open(COMPILED, cache=False)
    trace.compiled = {}
    [fusion] = document(_against(trace)).fusions
    assert (fusion.sign, fusion.replaces, fusion.sources) == (
        "name",
        ("aten::gelu", "aten::mul"),
        (),
    )


GATE_UP = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


@cache
def pair(a: str, b: str) -> Comparison:
    return compare(recorded(a), recorded(b))


def names(rows: tuple[KernelPair, ...]) -> list[tuple[str, int]]:
    return [(row.kernel.name, row.count) for row in rows if row.kernel.is_kernel]


def test_python_stacks_are_told_apart_from_a_slower_program() -> None:
    found = pair("linear_eager", "linear_eager_stack")
    assert found.changed == (
        "Only B was recorded with with_stack=True, which adds host time: host and wall times are "
        "not comparable.",
    )


def test_other_regions_align_by_step() -> None:
    found = pair("mlp_eager", "mlp_eager_train")
    assert found.unit.kind == "step"
    assert names(found.kernels.same)[:2] == [
        (GATE_UP, 2),
        (recorded("mlp_eager").kernels["name"][1], 1),
    ]
    assert sum(count for _, count in names(found.kernels.added)) == 18


def test_three_traces_have_one_baseline() -> None:
    found = compare(recorded("mlp_eager"), recorded("mlp_compiled"), recorded("mlp_liger"))
    (other,) = found.others
    assert other.a.gpu == found.a.gpu
    assert (found.gpu_ns.b, other.gpu_ns.b) == (205_661, 208_960)
    made = document(found)
    assert [each.b.path for each in made.others or ()] == [recorded("mlp_liger").path]


def test_the_public_name_is_callable_whatever_was_imported_before() -> None:
    assert ft.compare(recorded("linear_eager"), recorded("linear_eager")).changed == ()


def test_backward_fusion_crosses_the_matmuls_between() -> None:
    fusions = {
        fusion.kernel: fusion for fusion in pair("train eager", "train compiled").kernels.fusions
    }
    backward = fusions["triton_poi_fused__unsafe_view_gelu_gelu_backward_mul_view_0"]
    assert (backward.replaces, backward.kernels) == (("aten::mul", "aten::gelu_backward"), 3)


def test_compile_time_comes_from_the_run_record() -> None:
    worth = pair("model eager", "model compiled").worth
    assert worth.cost_s == 4.981894
    assert worth.saves_ns_per_call == 7_190_941 - 1_939_331
    assert worth.break_even_calls == 949
    assert worth.text == (
        "Yes: 5.25 ms (2.99 ms to 7.52 ms) less per call: 7.19 to 1.94 ms without the profiler (0.27x); compile time "
        "(4.98 s) breaks even after 949 calls."
    )
