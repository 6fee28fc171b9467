"""What `why` says, on documents made by hand."""

from __future__ import annotations

from msgspec.structs import replace

from foretrace.schema.compiler import Access, NamedTensor, SourceLine
from foretrace.schema.documents.why import (
    SCHEMA,
    BreakEntry,
    CallEntry,
    CompiledKernel,
    NotFused,
    RegionStages,
    UnfusedTraffic,
    Why,
)
from foretrace.schema.ledger import LedgerEntry, NoteEntry
from foretrace.show.overview.why import (
    apart_detail,
    kernel_lines,
    labels,
    lines,
    moved,
    stays_apart,
    title,
)

LINE = SourceLine("/home/me/model.py", 41, "forward", "return F.gelu(x) * y")
TENSOR = NamedTensor("buf0", "bf16", (4, 8), (8, 1))
KERNEL = CompiledKernel(
    "triton_poi_fused_gelu_mul_0", "0/0", "inference", False, [LINE], ["mul", "gelu"], "code", "triton",
    [Access(TENSOR, "load", 64)], [Access(TENSOR, "store", 64)], 128, 6, 6000, 1000.0, 900, 1100,
    "exact", calls=[CallEntry("triton_poi_fused_gelu_mul_0:3", [], [], 6, 6000)],
)  # fmt: skip


def _region(region: str) -> RegionStages:
    return RegionStages(region, "inference", LINE, 1, 2, None, 2, 2, 2, 1, 1, 0, 6, 6000, 10**9)


def _document(**given: object) -> Why:
    ledger = LedgerEntry(0, 0, 0, 0, [])
    made = Why(
        SCHEMA, "traces/run.why", None, [], [], ledger, [_region("0/0")], [KERNEL], [], [], [], []
    )
    for name, value in given.items():
        setattr(made, name, value)
    return made


def _said(why: Why, label: str) -> str:
    return next(line.text for line in lines(why) if line.label == label)


def test_the_title_is_the_run() -> None:
    assert title(_document()) == "run"
    assert title(_document(device="NVIDIA H200", steps=1)) == "run · NVIDIA H200 · 1 step"


def test_a_line_that_breaks_two_versions_counts_once() -> None:
    found = [BreakEntry(region, LINE, "print") for region in ("0/0", "0/1")]
    said = _said(_document(graph_breaks=found, compile_ns=10**9), "COMPILED")
    assert said == "1 graph, 1 graph break (model.py:41), no recompilation; compiling took 1.00 s"


def test_without_a_trace_there_are_calls_and_no_times() -> None:
    said = _said(_document(), "KERNELS")
    assert said.startswith(
        "1 call in the generated code: 1 of generated kernels, 0 of libraries; no trace"
    )


def test_launches_per_step() -> None:
    said = _said(_document(steps=3, launches=6, compiled_ns=6000, gpu_ns=8000), "KERNELS")
    assert said == "2 launches per step: 2 of generated kernels (2.00 us); 75.0% of GPU time"


def test_a_cpu_has_no_gpu_time() -> None:
    said = _said(_document(steps=3, launches=6, compiled_ns=6000), "KERNELS")
    assert said.endswith("; on the CPU, profiler overhead included")


def test_a_trace_that_ran_nothing_compiled() -> None:
    assert _said(_document(launches=0), "KERNELS").startswith("no launch of a compiled graph")


def test_what_was_not_recorded_is_said() -> None:
    assert _said(_document(lacks=["fusion reasons"]), "NOT KNOWN") == "fusion reasons"
    said = _said(_document(unexplained=["triton_poi_fused_add_0"]), "NOT EXPLAINED")
    assert said == "1 kernel of compiled graphs in no record: triton add"


def test_a_kernel_in_sentences() -> None:
    ran = replace(
        KERNEL, bound="memory", roof_percent=84.2, gbps=4040.0, unfused=UnfusedTraffic(256, 512)
    )
    said = {line.label: line.text for line in kernel_lines(_document(steps=3), ran)}
    assert said["FROM"] == "model.py:41 in forward: return F.gelu(x) * y"
    assert said["MOVES"] == "128 B per run: reads 64 B, writes 64 B"
    assert said["UNFUSED"] == "its ops one by one would move 256 B, 2.00x as much"
    assert said["LAUNCHES"] == (
        "6 in the trace, median 1.00 us (900 ns to 1.10 us): 4.04 TB/s, 84% of the memory roof"
    )


def test_bytes_of_dynamic_sizes_are_a_range() -> None:
    unknown = Access(TENSOR, "load", None, "unknown")
    ran = replace(KERNEL, bytes=None, loads=[unknown], run_bytes=[1000, 3000])
    said = {line.label: line.text for line in kernel_lines(_document(), ran)}
    assert said["MOVES"] == "1.00 to 3.00 kB per run, by the sizes that it met"
    assert moved(replace(ran, certainty="at_most")) == "<= 1.00 to 3.00 kB"


def test_no_two_rows_have_one_name() -> None:
    mm = replace(KERNEL, name="extern_kernels.addmm", extern=True)
    weight = Access(NamedTensor("w", "bf16", (8, 2), (2, 1)), "load", 32)
    first = replace(mm, loads=[weight, *KERNEL.loads, weight])
    rows = [KERNEL, replace(KERNEL, region="1/0"), first, replace(mm, loads=[weight] * 3)]
    other = CallEntry("triton_poi_fused_gelu_mul_0:5", [], [], 6, 6000)
    rows += [replace(KERNEL, region="1/0", calls=[other])]
    assert list(labels(rows).values()) == [
        "0/0 triton_poi_fused_gelu_mul_0",
        "1/0 triton_poi_fused_gelu_mul_0 :3",
        "addmm 4x8 8x2",
        "addmm 8x2 8x2",
        "1/0 triton_poi_fused_gelu_mul_0 :5",
    ]


def test_a_pair_names_what_each_computes() -> None:
    pair = NotFused("triton_poi_fused_add_0:1", "triton_poi_fused_add_2:4", "reason", "", None)
    assert stays_apart(pair) == "add (kernel 0) and add (kernel 2)"
    assert stays_apart(replace(pair, b="op11")) == "add and scheduler node op11"


def test_the_evidence_of_each_reason() -> None:
    pair = NotFused("extern_kernels.mm:1", "triton_poi_fused_gelu_0:2", "reason", "", None)
    order = replace(pair, code="order", shared=[TENSOR], a_index="8*d0 + d1", b_index="d0 + 4*d1")
    assert apart_detail(order) == (
        "buf0 [4, 8]: the first goes through it as 8*d0 + d1, the second as d0 + 4*d1"
    )
    sizes = replace(pair, code="sizes", a_sizes=[4, 8], b_sizes=[32, 1])
    assert apart_detail(sizes) == "iterations: 4 x 8 and 32 x 1"
    extern = replace(
        pair, code="extern", a_target="extern_kernels.mm", a_kind="extern", b_kind="pointwise"
    )
    assert apart_detail(extern, "NVIDIA H200") == (
        "mm is an extern cuBLAS call: Inductor cannot put code into it; "
        "max-autotune may use a Triton template, which takes pointwise code in"
    )
    assert "cuBLAS" not in apart_detail(extern), "a log alone may be of a CPU"
    assert "Triton" not in apart_detail(extern, "AMD Instinct MI300X")
    norm = apart_detail(replace(extern, b_kind="reduction"), "NVIDIA H200")
    assert norm == "mm is an extern cuBLAS call: Inductor cannot put code into it"
    refused = replace(extern, code="order", inductor="no shared data")
    assert apart_detail(refused, "NVIDIA H200") == (
        "mm was a template when Inductor decided this; tuning chose an extern cuBLAS call later"
    )
    sort = replace(pair, code="extern", a_target="torch.ops.aten.sort.stable")
    assert apart_detail(sort, "NVIDIA H200") == (
        "sort.stable is an extern ATen call: Inductor cannot put code into it"
    )
    twice = replace(extern, b_target="extern_kernels.mm")
    assert apart_detail(twice, "NVIDIA H200") == (
        "both mm are extern cuBLAS calls: Inductor cannot join them"
    )
    broken = replace(pair, code="graph_break", stopped_at=LINE, region="0/0", b_region="1/0")
    assert apart_detail(broken) == "the graph break at model.py:41 lies between 0/0 and 1/0"


def test_lost_records_come_first() -> None:
    note = NoteEntry("log_payload_damaged", "data_loss", 1, "records were skipped")
    found = lines(_document(ledger=LedgerEntry(2, 1, 0, 1, [note])))
    assert (found[0].label, found[0].text) == (
        "INCOMPLETE",
        "records were skipped; what follows holds for the rest",
    )
