"""Counters joined to traces: the document, its sentences, and what a change saved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from analyze.rules.sketch import GEMM, Sketch, kernel
from counter_files import FOLDER, METRICS, export_text, planned, recorded, row
from foretrace.base.errors import TraceError, UsageError
from foretrace.model import opening
from foretrace.model.counters import LAST, LevelTraffic, Wanted, tensor_operations, traffic
from foretrace.model.trace import Trace
from foretrace.read.ncu import read_export
from foretrace.schema.documents import encode
from foretrace.schema.documents.counters import CountersDocument
from foretrace.show.overview.counter_document import (
    OVER,
    Exported,
    counters_document,
    kernel_text,
    load_counters,
    with_earlier,
)
from opened_traces import open_made
from sweep import looped

ROWS = {3072: 1024, 24576: 8192}  # of the input, by grid


def _trace(folder: Path, log: str) -> Trace:
    """A trace in which the launches of a log are multiplications of two tensors."""
    sketch = Sketch().step()
    for launch in read_export(recorded(log), log).launches:
        shape = {"grid": list(launch.grid), "block": list(launch.block)}
        us = launch.metrics["gpu__time_duration.sum"] / 1000
        if launch.name == "mark_kernel":
            sketch = sketch.op("mark", kernel(launch.name, us, **shape))
        else:
            dims = [[ROWS[launch.grid[0]], 3072]] * 2
            sketch = sketch.op("aten::mul", kernel(launch.name, us, **shape), dims=dims)
    return open_made(sketch, folder)


@pytest.fixture(scope="module")
def gelu(tmp_path_factory: pytest.TempPathFactory) -> CountersDocument:
    logs = ("gelu_hbm", "gelu_l2")
    exports = [Exported(read_export(recorded(log), f"{log}.csv")) for log in logs]
    return counters_document(_trace(tmp_path_factory.mktemp("gelu"), "gelu_l2"), exports)


def test_two_exports_become_one_table(gelu: CountersDocument) -> None:
    assert [(run.launches, run.joined) for run in gelu.runs] == [(12, 12), (12, 12)]
    large, small = (one for one in gelu.kernels if one.name == "gelu_mul_kernel")
    assert (large.launches, small.launches) == (3, 3)
    assert (large.must_move, small.must_move) == (150_994_944, 18_874_368)
    assert large.bytes.l1 == pytest.approx(150_994_944)
    assert small.bytes.l1 == pytest.approx(18_874_368)
    assert large.bytes.hbm_read is not None
    assert large.bytes.l2_lookups is not None
    assert large.passes == 1
    assert gelu.notes == []


def test_input_that_is_in_l2_is_not_read_from_hbm(gelu: CountersDocument) -> None:
    """Behind its producers and itself the small one reads nothing, behind a flood all of it."""
    small = next(one for one in gelu.kernels if one.must_move == 18_874_368)
    read = [
        launch.metrics["dram__bytes_read.sum"]
        for name, (launch, _) in planned("gelu_hbm", "gelu").items()
        if " 1024 " in name
    ]
    assert [round(value / 12_582_912, 2) for value in read] == [0, 0, 1]
    assert small.bytes.hbm_read == pytest.approx(sum(read) / 3)
    assert small.text.startswith(
        "HBM: 4.20 MB read, 1.65 MB written. The op must move 18.9 MB: 13.0 MB stayed in L2."
    )


def test_roofs_are_those_that_were_measured(gelu: CountersDocument) -> None:
    large = next(one for one in gelu.kernels if one.must_move == 150_994_944)
    (hbm,) = large.roofs
    moved = (large.bytes.hbm_read or 0) + (large.bytes.hbm_written or 0)
    assert hbm.rate == pytest.approx(moved / (large.time_ns or 0) * 1e9)
    assert hbm.share == pytest.approx(hbm.rate / (hbm.roof or 0))
    assert 0.5 < (hbm.share or 0) < 1
    sources = {roof.level: roof.source for roof in gelu.roofs}
    assert sources["l2"].startswith("foretrace roofs, 2026")


def test_what_is_kept_needs_both_levels() -> None:
    assert LevelTraffic(hbm_read=1.0).kept_in_l2 is None
    assert LevelTraffic(hbm_read=1.0, l2_read=4.0).kept_in_l2 == 3.0
    assert LevelTraffic(hbm_read=5.0, l2_read=4.0).kept_in_l2 == 0.0
    assert LevelTraffic(l1=5.0, l2=4.0).kept_in_l1 == 1.0


def _run(
    folder: Path, kernels: list[tuple[str, int, int, float]], passes: int = 1
) -> CountersDocument:
    """Kernels with bytes read, bytes written and microseconds."""
    sketch = Sketch().step()
    rows = []
    for at, (name, read, written, us) in enumerate(kernels):
        piece = kernel(name, us, grid=[4, 1, 1], block=[128, 1, 1])
        sketch = sketch.op("aten::mul", piece, dims=[[1024, 3072]] * 2)
        rows.append(row(name, read, written, int(us * 1000), passes, number=at))
    folder.mkdir(exist_ok=True)
    export = read_export(export_text(rows), "c.csv")
    return counters_document(open_made(sketch, folder), [Exported(export)])


def test_what_a_fusion_saved(tmp_path: Path) -> None:
    apart = _run(
        tmp_path / "a",
        [
            ("gelu", 50_000_000, 50_000_000, 30),
            ("mul", 100_000_000, 50_000_000, 50),
            (GEMM, 7, 8, 9),
        ],
    )
    fused = _run(tmp_path / "b", [("fused", 100_000_000, 50_000_000, 48), (GEMM, 7, 8, 9)])
    saved = with_earlier(fused, apart, "a.json").against
    assert saved is not None
    assert saved.gone.kernels == ["mul", "gelu"]
    assert saved.new.kernels == ["fused"]
    assert saved.sentences[:3] == [
        "3 to 2 launches.",
        "GPU time: 89.0 to 57.0 us, 32.0 us less.",
        "HBM: 250.0 to 150.0 MB, 100.0 MB less.",
    ]
    assert (
        saved.sentences[3]
        == "Replaced: mul, gelu (80.0 us, 250.0 MB of HBM) by fused (48.0 us, 150.0 MB of HBM)."
    )
    assert saved.sentences[4] == (
        "From shapes alone the saving would be 18.9 MB; counted at HBM: 100.0 MB."
    )


def test_the_same_run_twice_saved_nothing(tmp_path: Path) -> None:
    one = _run(tmp_path / "a", [("gelu", 50_000_000, 50_000_000, 30)])
    saved = with_earlier(one, one, "a.json").against
    assert saved is not None
    assert saved.sentences == [
        "1 launch on both sides.",
        "GPU time: 30.0 to 30.0 us, within 5%.",
        "HBM: 100.0 to 100.0 MB, within 5%.",
    ]


def test_replayed_kernels_and_other_times_are_said(tmp_path: Path) -> None:
    document = _run(tmp_path, [("gelu", 5, 5, 30)], passes=4)
    assert document.notes == [
        "Nsight Compute ran 1 kernel up to 4 times to count all metrics: HBM and L2 may be those of "
        "a kernel behind itself"
    ]
    sketch = Sketch().step().op("x", kernel("gelu", 30, grid=[4, 1, 1], block=[128, 1, 1]))
    slow = read_export(export_text([row("gelu", 1, 2, 90_000, 1)]), "c.csv")
    document = counters_document(open_made(sketch, tmp_path), [Exported(slow)])
    assert document.notes == [
        "gelu took 3.00x its time in the trace under Nsight Compute: clocks or caches differ"
    ]


def test_a_rate_above_its_roof_is_explained(tmp_path: Path) -> None:
    (fast,) = _run(tmp_path, [("gelu", 100_000_000, 100_000_000, 30)]).kernels
    assert fast.text.endswith(f"6.67 TB/s at HBM, 141.6% of its roof. {OVER}")


def test_of_two_runs_the_one_with_fewer_passes_decides_about_caches(tmp_path: Path) -> None:
    sketch = Sketch().step().op("x", kernel("k", 30, grid=[4, 1, 1], block=[128, 1, 1]))
    trace = open_made(sketch, tmp_path)
    metrics = {**METRICS, "l1tex__t_bytes.sum": "byte"}
    often = Exported(read_export(export_text([row("k", 900, 2, 30, 4, 77)], metrics), "a.csv"))
    once = Exported(read_export(export_text([row("k", 100, 2, 30, 1)]), "b.csv"))
    for exports in ([often, once], [once, often]):
        (found,) = counters_document(trace, exports).kernels
        assert (found.bytes.hbm_read, found.bytes.l1, found.passes) == (100, 77, 1)


def test_launches_that_are_not_in_the_trace_keep_their_counters(tmp_path: Path) -> None:
    trace = open_made(Sketch().step().op("x", kernel("k", 30)), tmp_path)
    export = read_export(export_text([row("other", 100, 2, 30, 1)]), "a.csv")
    document = counters_document(trace, [Exported(export)])
    (found,) = document.kernels
    assert (found.joined, found.op, found.bytes.hbm_read) == (0, None, 100)
    assert document.sentences[0] == (
        "0 of 1 launch joined to ProfilerStep#1 (1 kernel): 1 launch not in the trace: other (1); "
        "1 kernel of the trace not joined."
    )


def test_documents_that_cannot_be_read(tmp_path: Path, gelu: CountersDocument) -> None:
    path = tmp_path / "before.json"
    path.write_text(encode(gelu))
    assert load_counters(str(path)) == gelu
    path.write_text(encode(gelu).replace('"schema":1', '"schema":99', 1))
    with pytest.raises(UsageError, match="schema 99"):
        load_counters(str(path))
    for text in ("", "{}", "[1", '{"schema":"x"}'):
        path.write_text(text)
        with pytest.raises(TraceError, match="E_NOT_COUNTERS"):
            load_counters(str(path))


def test_a_lower_bound_is_named_as_one(tmp_path: Path) -> None:
    (exact,) = _run(tmp_path, [("gelu", 20_000_000, 9_000_000, 30)]).kernels
    assert "The op must move 18.9 MB: HBM moved 10.1 MB more (it read again" in exact.text
    bound = replace(exact, certainty="at_least")
    assert "The op must move at least 18.9 MB. Nearest" in kernel_text(bound)
    less = replace(bound, bytes=replace(exact.bytes, hbm_read=0.0))
    assert "at least 18.9 MB: at least 9.87 MB stayed in L2." in kernel_text(less)


PAGE = Path(__file__).parents[3] / "docs" / "counters.md"
COUNTED_ROWS = re.findall(
    r"^\| (HBM|L2|shared|tensor) (\w+) \| (.*?) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$",
    PAGE.read_text(),
    re.MULTILINE,
)


# walks of the sets that L2 holds, by what the page calls them
SETS = {"16.8 MB": 16777216, "25.2 MB": 25165824, "33.6 MB": 33554432}


def _counted(level: str, what: str, size: str) -> tuple[float, float]:
    """What the kernel moves or computes, and what was counted of it."""
    if level == "tensor":
        name = {"fp64": "fp64_matrix"}.get(what, what)
        log = "tensor" if what == "fp8" else "arithmetic"
        launch, expected = planned(log, log)[f"tensor cores {name}"]
        [(kind, operations)] = tensor_operations(launch.metrics).items()
        assert kind == what
        return expected["flops"], operations
    if level == "HBM":
        launch, expected = planned("memory", "memory")[f"{what} 4294967296 4096xNone"]
        moved = traffic(launch.metrics)
        sides = {"read": [moved.hbm_read], "write": [moved.hbm_written]}
        found = sides.get(what, [moved.hbm_read, moved.hbm_written])
        return expected["bytes"], sum(side or 0 for side in found)
    if level == "shared":
        launch, expected = planned("memory_l2", "memory")[f"shared {what}"]
        return expected["shared_bytes"], traffic(launch.metrics).shared or 0
    small = (what, size) == ("copy", "16.8 MB")  # too small for parts of programs' own
    shape = "4096x4 spread" if small else "2048x4 own"
    launch, expected = planned("walks", "walks")[f"{what} {SETS[size]} {shape}"]
    return expected["bytes"], traffic(launch.metrics).l2 or 0


@looped("row", COUNTED_ROWS, ids=lambda row: " ".join(row[:3]))
def test_each_roof_is_confirmed_within_five_percent(row: tuple[str, ...]) -> None:
    level, what, size, moved, counted, ratio = row
    found = _counted(level, what, size)
    assert (f"{found[0]:,.0f}", f"{found[1]:,.0f}") == (moved, counted)
    assert f"{found[1] / found[0]:.3f}" == ratio
    assert abs(float(ratio) - 1) < 0.05
    assert len(COUNTED_ROWS) == 18


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("read 16777216 2048x4 own", 0.0),
        ("read 4294967296 2048x4 own", 0.5),
        ("write 16777216 2048x4 own", 0.5),
        ("copy 25165824 2048x4 own", 0.25),
    ],
)
def test_what_passes_between_the_partitions_of_l2(name: str, share: float) -> None:
    launch, expected = planned("fabric", "fabric")[name]
    moved = traffic(launch.metrics)
    assert moved.l2 == pytest.approx(expected["bytes"], rel=0.001)
    assert moved.l2_fabric == pytest.approx(share * expected["bytes"], abs=0.01 * expected["bytes"])


def _counted_mlp(name: str) -> CountersDocument:
    logs = [f"mlp_{name}_{number}" for number in (1, 2)]
    trace = opening.open(FOLDER / f"h200_mlp_{name}.json.gz", cache=False)
    exports = [Exported(read_export(recorded(log), log), Wanted(LAST)) for log in logs]
    return counters_document(trace, exports)


@pytest.fixture(scope="module")
def eager() -> CountersDocument:
    return _counted_mlp("eager")


@pytest.fixture(scope="module")
def compiled() -> CountersDocument:
    return _counted_mlp("compiled")


def test_every_launch_is_joined(eager: CountersDocument, compiled: CountersDocument) -> None:
    assert [(run.launches, run.joined) for run in eager.runs] == [(5, 5)] * 2
    assert [(run.launches, run.joined) for run in compiled.runs] == [(4, 4)] * 2
    assert {kernel.passes for kernel in (*eager.kernels, *compiled.kernels)} == {1}


def test_threads_move_what_the_shapes_say(eager: CountersDocument) -> None:
    for name in ("gelu", "mul bf16"):
        (kernel,) = (each for each in eager.kernels if each.kernel == name)
        assert kernel.bytes.l2 == pytest.approx(kernel.must_move, rel=0.001)


def test_half_of_what_passes_through_l2_is_looked_up_twice(eager: CountersDocument) -> None:
    """The lookups are those of the multiprocessors and those between the halves of L2."""
    (mul,) = (each for each in eager.kernels if each.kernel == "mul bf16")
    counted = mul.bytes
    assert counted.l2 is not None
    assert counted.l2_fabric == pytest.approx(counted.l2 / 2, rel=0.01)
    assert counted.l2_lookups == pytest.approx(counted.l2 * 1.5, rel=0.01)


def test_fusing_saved_a_read_and_a_write(
    eager: CountersDocument, compiled: CountersDocument
) -> None:
    """100.7 MB are one write and one read of 8192x3072 in bf16."""
    found = with_earlier(compiled, eager, "before.json").against
    assert found is not None
    assert "105.4 MB less" in " ".join(found.sentences)
