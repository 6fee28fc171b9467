"""A trace compared with itself is empty, and comparing B with A is the mirror of comparing A with
B.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

import foretrace as ft
from compare.traces import recorded
from corpus.build import g0
from corpus.odd_files import SMALL
from corpus.places import RECORDED, public_traces
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.base.tables import encode
from foretrace.compare import Comparison, compare, document
from foretrace.compare.changes import KernelPair, spent
from foretrace.compare.lines import comparison_markdown, comparison_text
from foretrace.compare.sides import Side
from foretrace.trace.trace import Trace
from opened_traces import open_made
from sweep import part

EVERY = sorted(RECORDED.rglob("*.json.gz"))
PAIRS = [
    *combinations(
        ("mlp_eager", "mlp_compiled", "mlp_liger", "mlp_eager_train", "linear_compiled"), 2
    ),
    ("matmul_add_4096_eager", "matmul_add_4096_compiled"),
    ("matmul_add_64_eager", "matmul_add_64_compiled"),
    ("train eager", "train compiled"),
    ("attention naive", "attention flash"),
    ("optimizer loop", "optimizer fused"),
    ("model eager", "model compiled"),
    ("mlp eager", "mlp compiled"),
    ("mlp eager", "mlp fused"),
    ("mlp compiled", "mlp graph"),
]
MIRROR = {"faster": "slower", "slower": "faster"}
PUBLIC_PAIRS = [
    ("h100_bert_small", "mi300_bert_small"),
    ("h100_qwen", "mi300_qwen"),
    ("ranks_0", "ranks_1"),
    ("vllm_decode", "sglang_decode"),
    ("cpu_only", "mi210_gpu_only"),
]


def is_empty(trace: Trace) -> None:
    found = compare(trace, trace)
    kernels, ops = found.kernels, found.ops
    assert (kernels.changed, kernels.removed, kernels.added, kernels.fusions, kernels.undone) == (
        (),
        (),
        (),
        (),
        (),
    )
    assert sum(row.count for row in kernels.same) == len(found.a.work)
    timed = found.gpu_ns.a is not None or not found.a.work
    assert found.verdict.answer == ("same" if timed else "inconclusive")
    assert (ops.removed, ops.added, found.changed) == ((), (), ())
    for value in (found.gpu_ns, found.cpu_ns, found.wall_ns):
        assert value.ratio in (1.0, None)
        assert value.a == value.b
    assert not found.worth.saves_ns_per_call
    encode(document(found))


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "path", part(EVERY, every=3), ids=lambda path: path.name.removesuffix(".json.gz")
)
def test_a_recorded_trace_compared_with_itself(path: Path) -> None:
    is_empty(ft.open(path, cache=False))


@pytest.mark.public
@pytest.mark.parametrize(
    "path",
    public_traces()
    or [pytest.param(None, marks=pytest.mark.skip("FORETRACE_PUBLIC_TRACES is not set"))],
    ids=lambda path: path.name.removesuffix(".json.gz") if path else "none",
)
def test_a_public_trace_compared_with_itself(path: Path) -> None:
    is_empty(ft.open(path, cache=False))


def pairs(rows: tuple[KernelPair, ...], *, turned: bool) -> list[tuple[object, ...]]:
    """Which kinds stand for which, how often, and for how long."""
    ends = []
    for row in rows:
        kinds = (row.a and row.a.kind, row.b and row.b.kind)
        times = (row.spent_a, row.spent_b)
        ends.append(
            (*(kinds[::-1] if turned else kinds), row.count, times[::-1] if turned else times)
        )
    return sorted(ends, key=repr)


def is_mirror(there: Comparison, back: Comparison) -> None:
    assert there.unit == back.unit
    for name in ("gpu_ns", "cpu_ns", "wall_ns", "idle_ns"):
        one, other = getattr(there, name), getattr(back, name)
        assert (one.a, one.b, one.noise, one.beyond) == (
            other.b,
            other.a,
            other.noise,
            other.beyond,
        )
    for ours, theirs in (
        ("same", "same"),
        ("changed", "changed"),
        ("removed", "added"),
        ("added", "removed"),
    ):
        assert pairs(getattr(there.kernels, ours), turned=False) == pairs(
            getattr(back.kernels, theirs), turned=True
        )
    assert there.kernels.fusions == back.kernels.undone
    assert there.kernels.undone == back.kernels.fusions
    for ours, theirs in (("removed", "added"), ("added", "removed"), ("same", "same")):
        assert {(row.name, row.a, row.b) for row in getattr(there.ops, ours)} == {
            (row.name, row.b, row.a) for row in getattr(back.ops, theirs)
        }
    assert len(there.changed) == len(back.changed)
    assert back.verdict.answer == MIRROR.get(there.verdict.answer, there.verdict.answer)
    assert sorted((row.a, row.b, row.ns_a, row.ns_b) for row in there.work) == sorted(
        (row.b, row.a, row.ns_b, row.ns_a) for row in back.work
    )
    assert [-part for part in host_parts(there)] == pytest.approx(host_parts(back))


def host_parts(found: Comparison) -> list[float]:
    """What the sentence about the host's net says: the parts by size, then the net; a saving is
    positive.
    """
    sentence = next(
        (line for line in found.changed if line.startswith("Profiled host time by part")), ""
    )
    said = re.findall(r"(saves?|costs?) ([\d.,]+) (ns|us|ms|s)\b", sentence)
    net = re.findall(r"(net) ([\d.,]+) (ns|us|ms|s) (?:less|more)", sentence)
    sizes = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    costs = ["costs" if sentence.endswith("more.") else "saves"] * len(net)
    signs = [-1 if word.startswith("cost") else 1 for word in [*(part[0] for part in said), *costs]]
    values = [
        sign * float(part[1].replace(",", "")) * sizes[part[2]]
        for sign, part in zip(signs, [*said, *net], strict=True)
    ]
    return [*sorted(values[:-1], key=abs), *values[-1:]]


def host_parts_add_up(found: Comparison) -> None:
    *parts, net = host_parts(found) or [0.0]
    assert sum(parts) == pytest.approx(net, abs=0.02 * max(map(abs, parts), default=0))


def accounts_for_everything(found: Comparison) -> None:
    """Removed, changed and same are the whole of each side; so are the rows of changes."""
    kernels = found.kernels
    both = (*kernels.same, *kernels.changed)
    for side, lone in (("a", kernels.removed), ("b", kernels.added)):
        whole = getattr(found, side).work
        spent = sum(each.length_ns or 0 for each in whole)
        assert sum(row.count for row in (*both, *lone)) == len(whole)
        assert sum(getattr(row, f"spent_{side}") or 0 for row in (*both, *lone)) == spent
        assert sum(getattr(row, side) for row in found.work) == len(whole)
        assert sum(getattr(row, f"ns_{side}") or 0 for row in found.work) == spent


def no_saving_exceeds_its_time(found: Comparison) -> None:
    for each in found.kernels.parts:
        for fusion, work in ((each.fusion, each.a), (each.undone, each.b)):
            assert fusion is None or (fusion.ns_saved or 0) <= (spent(work) or 0)
    assert (found.verdict.saves_at_most_ns or 0) <= max(found.bare_wall_ns.a or 0, longest(found.a))


def fits_the_first_screen(found: Comparison) -> None:
    for width in (80, 200):
        lines = comparison_text(found, 12, width=width).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= width


def longest(side: Side) -> float:
    return max(side.pace.median or 0, side.gpu.median or 0)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_recorded_pairs_mirror(a: str, b: str) -> None:
    there, back = compare(recorded(a), recorded(b)), compare(recorded(b), recorded(a))
    is_mirror(there, back)
    accounts_for_everything(there)
    no_saving_exceeds_its_time(there)
    fits_the_first_screen(there)
    host_parts_add_up(there)


@pytest.mark.public
@pytest.mark.parametrize(("a", "b"), PUBLIC_PAIRS, ids=[f"{a}-{b}" for a, b in PUBLIC_PAIRS])
def test_public_pairs_mirror(a: str, b: str) -> None:
    paths = {path.name.removesuffix(".json.gz"): path for path in public_traces()}
    if a not in paths or b not in paths:
        pytest.skip("FORETRACE_PUBLIC_TRACES does not hold these traces")
    first, second = ft.open(paths[a], cache=False), ft.open(paths[b], cache=False)
    there = compare(first, second)
    is_mirror(there, compare(second, first))
    accounts_for_everything(there)
    no_saving_exceeds_its_time(there)
    fits_the_first_screen(there)


EMPTY = ("E08",)
TOLD = [case for case in SMALL if case.id not in EMPTY]


def test_odd_traces_compare_or_are_refused(tmp_path: Path) -> None:
    """Every trace of the corpus that opens: with itself nothing differs, with a good one the page
    can be drawn.
    """
    good = open_made(g0(), tmp_path, "good")
    refused = []
    for case in [*part(TOLD, every=12), *(case for case in SMALL if case.id in EMPTY)]:
        folder = tmp_path / case.id
        folder.mkdir()
        trace = ft.open(
            case.put(folder), cache=False, limits=Limits(**case.limits) if case.limits else None
        )
        try:
            is_empty(trace)
        except TraceError as error:
            refused.append((case.id, error.code))
            continue
        for found in (compare(good, trace), compare(trace, good)):
            encode(document(found))
            assert max(map(len, comparison_text(found, 12).splitlines())) <= 100, case.id
            assert comparison_markdown(found, 12)
    assert refused == [(name, "E_NOTHING_TO_COMPARE") for name in EMPTY]
