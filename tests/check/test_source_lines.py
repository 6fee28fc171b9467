"""Predictions about lines of the user's code, on records made by hand."""

from __future__ import annotations

import foretrace as ft
from check.conftest import H200
from foretrace.check import check
from foretrace.read.compiler.records import (
    Compilation,
    CompiledLaunch,
    CompilerRun,
    FxGraph,
    GraphNode,
    KernelCall,
    SourceLine,
)
from foretrace.read.ledger import Ledger
from foretrace.trace.trace import Trace
from sweep import looped

GATE = SourceLine("/home/me/layers/model.py", 41)
DOWN = SourceLine("/home/me/layers/model.py", 42)
GRAPH = FxGraph("dynamo", (GraphNode("gelu", "torch._C._nn.gelu", source=GATE),))
COMPILATION = Compilation("0/0", graphs=(GRAPH,))
RUN = CompilerRun("run.why", (COMPILATION,), Ledger(9, 9, 0, 0))


def _trace(*, leave_out: str = "nothing") -> Trace:
    """The compiled MLP: gate and up and their fused gelu and mul from one line, down from another."""
    trace = ft.open(H200 / "mlp_compiled.json.gz", cache=False)
    gpu, host = trace.gpu, trace.host
    events = gpu.id[gpu.launch_order[gpu.is_kernel[gpu.launch_order]]].tolist()
    names = [host.names[host.name[event]] for event in events]
    found = {}
    for at, (event, name) in enumerate(zip(events, names, strict=True)):
        lines = (DOWN,) if at % 4 == 3 else (GATE,)
        call = KernelCall(name, "triton" not in name, sources=lines)
        found |= {event: CompiledLaunch(COMPILATION, call)} if leave_out not in name else {}
    trace.compiled = found
    trace.compiler_records.use(RUN)
    return trace


@looped(
    ("text", "verdict"),
    [
        ("per step: kernels from model.py:41 == 3", "hit"),
        ("per step: kernels from model.py:42 == 1", "hit"),
        ("per step: kernels from layers/model.py:42 == 1", "hit"),
        ("per step: no kernels from other/model.py:42", "hit"),
        ("in mlp_fwd: pointwise from model.py:41 == 1", "hit"),
        ("in mlp_fwd: pointwise from model.py:42 == 0", "hit"),
        ("per step: kernels from model.py == 4", "hit"),
        ("per step: kernels from model.py:41 == 1", "miss"),
        ("at most 3 kernels from model.py:41 per step", "hit"),
        ("every pointwise comes from model.py:41", "hit"),
        ("every gemm comes from model.py:41", "miss"),
        ("some gemm comes from model.py:42", "hit"),
        ("no pointwise comes from model.py:42", "hit"),
    ],
)
def test_lines_of_compiled_kernels(text: str, verdict: str) -> None:
    [found] = check(_trace(), text)
    assert (found.verdict, found.why) == (verdict, "")


def test_an_eager_kernel_may_come_from_the_line() -> None:
    """A kernel whose op the line has leaves it open; the matmuls cannot be the line's gelu."""
    texts = ["per step: kernels from model.py:41 == 1", "per step: kernels from model.py:7 == 0"]
    found, elsewhere = check(_trace(leave_out="nvjet"), texts)
    assert (found.verdict, found.measured[:1]) == ("hit", "1")
    assert elsewhere.verdict == "unknown"
    assert "eager code launched some kernels" in elsewhere.why


def test_without_records(mlp: Trace) -> None:
    [found] = check(mlp, "kernels from model.py:41 == 1")
    assert found.verdict == "unknown"
    assert "foretrace record --why" in found.why
