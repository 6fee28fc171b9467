"""Eager against compiled, where the compiler's records say what became of each op."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec.structs import replace

import foretrace as ft
from foretrace.analyze.compare import Comparison, compare, document
from foretrace.model.trace import Trace
from foretrace.read.recordings import traces
from foretrace.schema.compiler import CompiledLaunch

COMPILED = Path(__file__).parents[2] / "data" / "compile" / "mlp" / "trace.json.gz"


@cache
def _eager() -> Trace:
    return ft.open(traces()["mlp_eager"], cache=False)


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
