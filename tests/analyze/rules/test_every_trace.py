"""What holds for the findings of every recording, every fault and every public trace."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from corpus.places import PUBLIC, RECORDED
from foretrace.analyze.rules import rules
from foretrace.analyze.rules._idle import RANGES, ranges
from foretrace.analyze.rules.graph_launches import graph_rows
from foretrace.analyze.rules.unfused_optimizer import FUSED, optimizer_rows
from foretrace.model.idle import Idle
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding
from opened_traces import FAULTS, findings, opened

OTHERS = sorted(Path(PUBLIC).parent.rglob("*.json.gz")) if PUBLIC else []
TRACES = [*sorted(RECORDED.rglob("*.json.gz")), *sorted(FAULTS.glob("*.json.gz")), *OTHERS]
EVERY = [pytest.param(path, id=f"{path.parent.name}-{path.name[:40]}") for path in TRACES]
# Rules whose saving is part of the GPU time that their evidence states.
_KERNELS = (
    "addmm_copy attention_math casts exposed_comms float32_matmuls hidden_copies library_fills "
    "misaligned_matmuls old_kernels"
)
FROM_KERNELS = frozenset(_KERNELS.split())
IDLE = ("idle_gaps", "launch_bound", "sync_stalls", "unfused_optimizer")


@pytest.mark.parametrize("path", EVERY)
def test_findings(path: Path) -> None:
    """No rule fails. Savings, titles, advice and gaps fit the trace."""
    trace, said = opened(path), findings(path)
    assert {*said} == {rule.name for rule in rules()}
    found = []
    for finding in (one for rows in said.values() for one in rows):
        assert finding.state != "crashed", finding
        gaps_are_idle(trace, finding)
        if finding.state == "found":
            found.append(finding)
            saving_is_there(finding, step_ns(trace))
            assert len(finding.title) <= 140, finding.title
            assert not finding.title.endswith(".")
            assert not finding.fix.endswith(".")
    advice_is_not_followed_yet(trace, found)


def step_ns(trace: Trace) -> float:
    """How long a step takes, busy or idle, on all devices together; or the recording."""
    devices = sum(len(busy.start) > 0 for busy in trace.busy)
    if not trace.order.steps:
        return float(trace.idle.window_ns)
    spans = [span for span in trace.spans.steps if len(span.work)]
    return devices * float(np.median([np.ptp(trace.spans.window(span)) for span in spans]))


def saving_is_there(finding: Finding, step: float) -> None:
    """No saving exceeds what it is taken from."""
    saving = finding.at_most_ns
    if saving is None:
        return
    assert 0 < saving <= step, finding
    if finding.rule in FROM_KERNELS:
        assert saving <= finding.evidence["ns"], finding
    if finding.rule in ("idle_gaps", "sync_stalls"):
        assert saving <= finding.evidence["idle_ns"], finding


def advice_is_not_followed_yet(trace: Trace, found: list[Finding]) -> None:
    """No finding advises what the program does."""
    names = trace.host.names
    fixes = {finding.rule: finding.fix for finding in found}
    by_graphs = trace.gpu.length[graph_rows(trace)].sum() > trace.gpu.length.sum() / 2
    assert not (by_graphs and "CUDA graph" in str(fixes))
    kernels = {names[name] for name in trace.host.name[trace.gpu.id[optimizer_rows(trace)]]}
    fused = any(re.search(FUSED, name) for name in kernels)
    assert not (fused and "unfused_optimizer" in fixes)
    assert "pageable_copies" not in fixes or any("Pageable" in name for name in names)
    compiled = any(name.startswith("Torch-Compiled Region") for name in names)
    assert not (compiled and fixes.get("metadata_only"))


def gaps_are_idle(trace: Trace, finding: Finding) -> None:
    """No work runs in the gaps that a finding lists, the longest first."""
    gpu, lengths = trace.gpu, [end - start for start, end, _ in finding.ranges]
    assert not lengths or finding.rule in IDLE
    assert lengths == sorted(lengths, reverse=True)
    for start, end, device in finding.ranges:
        mine = gpu.usable & (gpu.device_number == device)
        assert start < end
        assert not (mine & (gpu.start < end) & (gpu.end > start)).any()
    if finding.rule == "idle_gaps" and finding.state == "found" and len(lengths) < RANGES:
        assert sum(lengths) == finding.evidence["idle_ns"]
        assert lengths[0] >= finding.evidence["longest_ns"]


def idle(*parts: tuple[int, int, int]) -> Idle:
    """Gaps by start, end and device."""
    start, end, device = np.array(parts, np.int64).reshape(-1, 3).T
    nothing = np.zeros(len(start), np.int64)
    return Idle(start, end, nothing, nothing, device, nothing, 0)


def test_parts_that_follow_each_other_are_one_gap_and_the_longest_comes_first() -> None:
    found = ranges(idle((5, 9, 0), (9, 10, 0), (0, 3, 0), (10, 12, 1), (12, 30, 1)))
    assert found == ((10, 30, 1), (5, 10, 0), (0, 3, 0))
    assert ranges(idle()) == ()
    many = ranges(idle(*((10 * at, 10 * at + 1, 0) for at in range(RANGES + 5))))
    assert len(many) == RANGES
