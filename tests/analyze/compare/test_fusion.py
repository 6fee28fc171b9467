"""Fusions in recorded pairs, with the compiler's records and by names alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec.structs import replace

import foretrace as ft
from analyze.compare.traces import recorded
from foretrace.analyze.compare import Comparison, compare, document
from foretrace.analyze.compare.fusion import KernelPair
from foretrace.model.trace import Trace
from foretrace.read.recordings import traces
from foretrace.schema.compiler import CompiledLaunch
from opened_traces import opened

COMPILED = Path(__file__).parents[2] / "data" / "compile" / "mlp" / "trace.json.gz"


@cache
def _eager() -> Trace:
    return opened(traces()["mlp_eager"])


def _against(compiled: Trace) -> Comparison:
    return compare(_eager(), compiled)


def test_the_records_name_the_ops_and_the_line() -> None:
    [fusion] = document(_against(ft.open(COMPILED, cache=False))).fusions
    assert (fusion.sign, fusion.replaces) == ("mapping", ("aten::gelu", "aten::mul"))
    assert fusion.sources == ("record.py:27",)
    assert fusion.bytes_saved == 100_663_296  # 252 MB of two kernels, 151 MB of one


def test_the_rows_say_the_line_and_add_up() -> None:
    found = _against(ft.open(COMPILED, cache=False))
    [row] = [row for row in found.work if row.fate == "replaced"]
    assert row.how == "fused by Inductor, record.py:27"
    assert (sum(row.a for row in found.work), sum(row.b for row in found.work)) == (7, 6)


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
DOWN = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
INDUCTOR = "triton_poi_fused__unsafe_view_gelu_mul_0"
LIGER = "_geglu_tanh_forward_kernel"
COMPILE_ROWS = {
    "TorchDynamo Cache Lookup",
    "Torch-Compiled Region",
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper Prologue",
    "## Call CompiledFxGraph … ##",
}
DISPATCH = {
    "aten::linear",
    "aten::t",
    "aten::transpose",
    "aten::as_strided",
    "aten::matmul",
    "aten::reshape",
    "aten::view",
    "aten::_unsafe_view",
}


@cache
def pair(a: str, b: str) -> Comparison:
    return compare(recorded(a), recorded(b))


def names(rows: tuple[KernelPair, ...]) -> list[tuple[str, int]]:
    return [(row.kernel.name, row.count) for row in rows if row.kernel.is_kernel]


def test_mlp_eager_to_compiled_times() -> None:
    found = pair("mlp_eager", "mlp_compiled")
    assert (found.unit.kind, found.unit.name) == ("region", "mlp_fwd")
    assert (found.gpu_ns.a, found.gpu_ns.b) == (234_269, 205_661)
    assert round(found.gpu_ns.ratio or 0, 3) == 0.878
    assert found.gpu_ns.beyond
    assert (found.cpu_ns.a, found.cpu_ns.b) == (291_063, 422_775)
    assert found.cpu_ns.beyond
    assert found.wall_ns.beyond
    assert (
        found.changed[0] == "GPU time falls by 12.2%: 234 to 206 us per call (0.88x, noise 0.3%)."
    )
    host = "Profiled host time rises by 45.3%: 291 to 423 us per call (1.45x, noise 28.6%)."
    assert found.changed[1] == host
    assert "; net 132 us more." in found.changed[2]


def test_mlp_eager_to_compiled_kernels() -> None:
    found = pair("mlp_eager", "mlp_compiled")
    kernels = found.kernels
    assert names(kernels.same) == [(GATE_UP, 2), (DOWN, 1)]
    assert kernels.changed == ()
    assert [row.kernel.op for row in kernels.removed] == ["aten::gelu", "aten::mul"]
    assert names(kernels.added) == [(INDUCTOR, 1)]
    (fusion,) = kernels.fusions
    assert (fusion.kernel, fusion.backend, fusion.replaces) == (
        INDUCTOR,
        "inductor",
        ("aten::gelu", "aten::mul"),
    )
    assert fusion.bytes_saved == 100_663_296
    (change,) = (row for row in found.work if row.fate != "same")
    assert (change.ns_a, change.ns_b, fusion.ns_saved) == (69_024, 37_248, 31_776)
    assert sum(row.ns_a or 0 for row in found.work) == found.gpu_ns.a
    assert sum(row.ns_b or 0 for row in found.work) == found.gpu_ns.b
    sentence = next(line for line in found.changed if "fused by Inductor" in line)
    assert sentence.endswith(": 2 kernels to 1, 69.0 to 37.2 us (fused by Inductor).")


def test_mlp_eager_to_compiled_ops() -> None:
    ops = pair("mlp_eager", "mlp_compiled").ops
    assert {(row.name, row.a, row.b) for row in ops.removed} == {
        *((name, 3, 0) for name in DISPATCH),
        ("aten::gelu", 1, 0),
        ("aten::mul", 1, 0),
    }
    assert {(row.name, row.a, row.b) for row in ops.added} == {
        *((name, 0, 1) for name in COMPILE_ROWS),
        (INDUCTOR, 0, 1),
    }
    assert [(row.name, row.a, row.b) for row in ops.same] == [("aten::mm", 3, 3)]
    assert {row.name for row in ops.added if row.by_compiler} == COMPILE_ROWS


def test_mlp_compiled_to_liger() -> None:
    found = pair("mlp_compiled", "mlp_liger")
    assert names(found.kernels.same) == [(GATE_UP, 2), (DOWN, 1)]
    (row,) = found.kernels.changed
    assert row.a is not None
    assert row.b is not None
    assert (row.a.name, row.b.name, row.a.role, row.b.role) == (
        INDUCTOR,
        LIGER,
        "pointwise",
        "pointwise",
    )
    assert (row.ns.a, row.ns.b) == (37_440, 44_480)
    assert row.why[0] == "another kernel"
    assert "grid [24576,1,1] to [8192,1,1]" in row.why
    assert (found.kernels.removed, found.kernels.added, found.kernels.fusions) == ((), (), ())


def test_mlp_eager_to_liger_is_a_fusion_by_place() -> None:
    (fusion,) = pair("mlp_eager", "mlp_liger").kernels.fusions
    assert (fusion.kernel, fusion.backend, fusion.replaces, fusion.sign) == (
        LIGER,
        "liger",
        ("aten::gelu", "aten::mul"),
        "place",
    )
    assert fusion.bytes_saved == 100_663_296


def test_matmul_add_compiled_copies_the_bias_first() -> None:
    found = pair("matmul_add_4096_eager", "matmul_add_4096_compiled")
    (row,) = found.kernels.changed
    assert row.a is not None
    assert row.b is not None
    assert row.a.name == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert row.b.name == "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT"
    assert (row.a.op, row.b.op) == ("aten::mm", "aten::addmm")
    (fusion,) = found.kernels.fusions
    assert (fusion.replaces, fusion.backend, fusion.sign) == (
        ("aten::mm", "aten::add"),
        "cublas",
        "epilogue",
    )
    assert fusion.bytes_saved == 0
    assert (found.a.memcpys, found.b.memcpys) == (0, 1)
    (change,) = (row for row in found.work if row.fate != "same")
    assert change.counts == "2 kernels to 1, 0 memcpy/memset to 1"
    assert change.saved_ns == fusion.ns_saved


def test_linear_compiled_changes_the_host_alone() -> None:
    found = pair("linear_eager", "linear_compiled")
    assert names(found.kernels.same) == [("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT", 1)]
    assert found.gpu_ns.ratio == 1.0
    assert found.cpu_ns.beyond
    assert (found.kernels.changed, found.kernels.removed, found.kernels.added) == ((), (), ())


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


def test_a_merged_matmul_is_named() -> None:
    """gate and up in one matmul of twice the size."""
    found = pair("mlp eager", "mlp fused")
    merged = next(fusion for fusion in found.kernels.fusions if fusion.sign == "merged")
    assert (merged.kernel, merged.kernels, merged.replaces) == (GATE_UP, 2, ("aten::mm",))
    assert merged.bytes_saved == 8192 * 768 * 2 + 4  # the input once less, and a memset of 4 B


def test_backward_fusion_crosses_the_matmuls_between() -> None:
    fusions = {
        fusion.kernel: fusion for fusion in pair("train eager", "train compiled").kernels.fusions
    }
    backward = fusions["triton_poi_fused__unsafe_view_gelu_gelu_backward_mul_view_0"]
    assert (backward.replaces, backward.kernels) == (("aten::mul", "aten::gelu_backward"), 3)


def test_attention_in_one_kernel() -> None:
    found = pair("attention naive", "attention flash")
    (fusion,) = found.kernels.fusions
    assert found.unit.kind == "step"  # the regions have other names
    assert fusion.replaces == ("aten::bmm", "aten::mul", "aten::masked_fill_", "aten::_softmax")
    assert (fusion.kernels, fusion.count) == (5, 1)


def test_a_fused_optimizer_stands_for_its_loop() -> None:
    (fusion,) = pair("optimizer loop", "optimizer fused").kernels.fusions
    assert (fusion.kernels, fusion.count, fusion.sign) == (248, 6, "place")
    assert "aten::addcdiv_" in fusion.replaces


def test_a_replayed_graph_is_the_same_kernels() -> None:
    """A graph launch records no ops and no shapes; names and launches are the same."""
    found = pair("mlp compiled", "mlp graph")
    assert sum(count for _, count in names(found.kernels.same)) == 4
    assert [row.kernel.op for row in found.kernels.added] == ["aten::_foreach_copy_"]
    assert (found.kernels.changed, found.kernels.removed) == ((), ())


def test_compile_time_comes_from_the_run_record() -> None:
    worth = pair("model eager", "model compiled").worth
    assert worth.cost_s == 4.981894
    assert worth.saves_ns_per_call == 7_190_941 - 1_939_331
    assert worth.break_even_calls == 949
    assert worth.text == (
        "Yes: 5.25 ms (2.99 ms to 7.52 ms) less per call: 7.19 to 1.94 ms without the profiler (0.27x); compile time "
        "(4.98 s) breaks even after 949 calls."
    )
