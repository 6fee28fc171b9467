"""The recorded H200 traces: every number as it was pinned, and the truths that the workloads imply.

`recorded_truth.json` holds what the slow reader said when the traces were taken in;
`PYTHONPATH=tests python tests/read/test_recorded.py` writes it anew, for a person to review.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reference_reader
from corpus.agreement import assert_agree
from corpus.cases import Opened
from corpus.opening import open_at
from corpus.places import RECORDED, public_traces, recorded_traces

TRUTH = Path(__file__).with_name("recorded_truth.json")

# Per step: kernels, memcpys, memsets. These follow from the workload and the way it was run.
PER_STEP = {
    "linear_eager": (1, 0, 0),
    "linear_compiled": (1, 0, 0),
    "linear_eager_stack": (1, 0, 0),
    "matmul_add_64_eager": (2, 0, 0),
    "matmul_add_64_compiled": (1, 1, 0),
    "matmul_add_4096_eager": (2, 0, 1),
    "matmul_add_4096_compiled": (1, 1, 1),
    "mlp_eager": (5, 0, 2),
    "mlp_compiled": (4, 0, 2),
    "mlp_liger": (4, 0, 2),
    "mlp_eager_train": (23, 0, 4),
    "llama_train_eager": (1567, 25, 97),
}
REGIONS = {
    **dict.fromkeys((name for name in PER_STEP if name.startswith("linear")), "linear_fwd"),
    **dict.fromkeys((name for name in PER_STEP if name.startswith("matmul")), "matmul_add"),
    **dict.fromkeys(("mlp_eager", "mlp_compiled", "mlp_liger"), "mlp_fwd"),
    "mlp_eager_train": "mlp_train",
    "llama_train_eager": "train_step",
}
NAMES = sorted(PER_STEP)


def truth() -> dict[str, Any]:
    return json.loads(TRUTH.read_text())


def slow_truth(slow: reference_reader.Reading) -> dict[str, Any]:
    return {
        "events": slow.seen,
        "totals": slow.totals,
        "steps": slow.steps,
        "regions": slow.regions,
    }


def test_every_recorded_trace_is_pinned() -> None:
    assert [path.name.partition(".")[0] for path in recorded_traces()] == NAMES == sorted(truth())


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_trace(name: str) -> None:
    """Both readers say what is pinned, and the same; a healthy trace has a clean ledger."""
    path = RECORDED / f"{name}.json.gz"
    opened, slow = open_at(path), reference_reader.read(path.read_bytes())
    assert slow_truth(slow) == truth()[name]
    assert_agree(opened, slow)
    check_numbers(opened, truth()[name])
    check_workload(opened, name)
    assert (opened.ledger.repaired, opened.ledger.skipped) == (0, 0)
    assert opened.ledger.banner == ()


def check_numbers(opened: Opened, expected: dict[str, Any]) -> None:
    assert (
        opened.ledger.seen
        == opened.ledger.kept
        == opened.doc["trace"]["events"]
        == expected["events"]
    )
    assert {key: opened.totals[key] for key in expected["totals"]} == expected["totals"]
    assert [
        {key: step[key] for key in expected["steps"][0]} for step in opened.doc["steps"]
    ] == expected["steps"]
    rows = {row["name"]: row for row in opened.doc["regions"]}
    assert sorted(rows) == sorted(expected["regions"])
    for region, numbers in expected["regions"].items():
        assert {key: rows[region][key] for key in numbers} == numbers


def check_workload(opened: Opened, name: str) -> None:
    """Three steps, 2 to 4, each with the same GPU work, all of it launched inside its step and
    inside the region.
    """
    kernels, memcpys, memsets = PER_STEP[name]
    steps = opened.doc["steps"]
    assert [step["index"] for step in steps] == [2, 3, 4]
    assert [(step["kernels"], step["memcpys"], step["memsets"]) for step in steps] == [
        (kernels, memcpys, memsets)
    ] * 3
    assert opened.totals["kernels"] == 3 * kernels
    assert opened.totals["gpu_busy_ns"] == sum(step["gpu_busy_ns"] for step in steps)
    region = next(row for row in opened.doc["regions"] if row["name"] == REGIONS[name])
    assert (region["count"], region["kernels_per_call"]) == (3, kernels)
    assert all(
        kernel["launch"] is not None and kernel["delay_ns"] is not None for kernel in opened.kernels
    )


def test_train_step_includes_the_backward_thread() -> None:
    """The backward pass runs on its own thread; its kernels belong to the step nonetheless."""
    opened = open_at(RECORDED / "mlp_eager_train.json.gz")
    launches = {kernel["launch"] for kernel in opened.kernels}
    tracks = {event["track"] for event in opened.events if event["id"] in launches}
    assert len(tracks) == 2


@pytest.mark.public
@pytest.mark.parametrize(
    "path", public_traces() or [None], ids=lambda path: path.name[:-8] if path else "none"
)
def test_public_agree(path: Path | None) -> None:
    """Traces of other cards and producers, where they are at hand."""
    if path is None:
        pytest.skip("FORETRACE_PUBLIC_TRACES names no folder of traces")
    opened, slow = open_at(path), reference_reader.read(path.read_bytes())
    assert_agree(opened, slow)
    assert (opened.ledger.seen, opened.ledger.skipped) == (slow.seen, 0), "nothing is lost"


if __name__ == "__main__":
    pinned = {
        path.name.partition(".")[0]: slow_truth(reference_reader.read(path.read_bytes()))
        for path in recorded_traces()
    }
    TRUTH.write_text(json.dumps(pinned, indent=1, sort_keys=True) + "\n")
