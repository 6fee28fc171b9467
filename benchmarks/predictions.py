"""How well fixes are predicted: pairs of recordings with one planted fault and the same work fixed.

    python benchmarks/predictions.py FOLDER … --json benchmarks/results/h200-predictions.json

A folder has NAME_bad.json.gz, NAME_good.json.gz and truth.json with the time of a step of each side
without the profiler (`bad_ms`, `good_ms`). For each pair: is the first advice the fix of the fault,
and how far is the predicted step from the measured one. `fixes` in truth.json names the fixes that
undo the fault, `set` the part of the page. A third of the first set of pairs, chosen
by a hash of its names before any fix was written, was left out of every fit and every rule.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import foretrace as ft
from foretrace.look.fixes import Predicted, predicted

# which fix undoes the planted fault; several where each of them does
_CAUSES = """
    anomaly_mode: anomaly_mode
    atomics: colliding_atomics
    cache_by_cat: cache_by_cat
    checkpoint_all: checkpoint
    compiled_small: cuda_graph
    conv_no_tf32: tf32
    float_images: bytes_not_floats
    graph_breaks: scalar_reads
    gru_cells: batched_loop
    heads_in_a_loop: batched_loop
    loader_workers: data_loader
    logits_to_host: reduce_on_gpu
    loss_item: scalar_reads
    mask_index: boolean_mask
    no_autocast: autocast
    odd_vocab: aligned_sizes
    odd_width: aligned_sizes
    one_hot_product: one_hot_matmul
    pointwise_chain: compile
    python_metrics: python_time
    repeat_kv: grouped_queries
    resnet_nchw: channels_last
    sample_loop: batched_loop
    scaler_fp16: grad_scaler
    sdpa_fp32: attention_dtype
    sgd_loop: fused_optimizer
    softmax_dim0: strided_softmax
    sync_per_layer: synchronize
    tensor_from_list: small_copies
    weights_offloaded: keep_on_gpu
    written_attention: fused_attention
"""
CAUSES = {
    name: fixes.split()
    for name, _, fixes in (line.strip().partition(": ") for line in _CAUSES.strip().splitlines())
}
_HELD_OUT = """
    atomics cache_by_cat graph_breaks mask_index pointwise_chain resnet_nchw sample_loop sgd_loop
    sync_per_layer tensor_from_list
"""
HELD_OUT = frozenset(_HELD_OUT.split())
PAYS = 1.1  # a fix that brings less is not counted
CLOSE = 0.3


def judged(folder: Path, name: str, truth: dict[str, Any]) -> dict[str, Any]:
    """One pair: the first advice, the prediction for the fix of its fault, and the truth."""
    found = predicted(ft.open(folder / f"{name}_bad.json.gz", cache=False))
    wanted = truth.get("fixes") or CAUSES.get(name, [])
    row = {
        "name": name,
        "fault": truth["fault"],
        "set": truth.get("set") or _set(name),
        "wanted": wanted,
        "bad_ms": truth["bad_ms"],
        "good_ms": truth["good_ms"],
        "pays": truth["bad_ms"] > PAYS * truth["good_ms"],
    }
    return row | (_predicted(found, wanted, truth["good_ms"]) if found else {"first": ""})


def _set(name: str) -> str:
    return "held out" if name in HELD_OUT else "fitted" if name in CAUSES else "new"


def _predicted(found: Predicted, wanted: list[str], good_ms: float) -> dict[str, Any]:
    ready = [each for each in found.fixes if not each.proposal.first]
    mine = next((each for each in found.fixes if each.fix in wanted), None)
    first = ready[0].fix if ready else ""
    told = {"first": first, "right": first in wanted, "now_ms": found.now_ns / 1e6}
    told |= {"now_low_ms": found.low_ns / 1e6, "now_high_ms": found.high_ns / 1e6}
    if mine is None:
        return told
    low, high = mine.low_ns / 1e6, mine.high_ns / 1e6
    return told | {
        "fix": mine.fix,
        "predicted_ms": mine.ns / 1e6,
        "low_ms": low,
        "high_ms": high,
        "inside": low <= good_ms <= high,
        "close": abs(mine.ns / 1e6 / good_ms - 1) <= CLOSE,
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """How often the cause came first and the prediction held, of pairs whose fix pays."""
    paying = [row for row in rows if row["pays"]]
    count = len(paying)
    right, close, inside = (
        sum(bool(row.get(key)) for row in paying) for key in ("right", "close", "inside")
    )
    steps = [row for row in rows if "now_ms" in row]
    held = sum(row["now_low_ms"] <= row["bad_ms"] <= row["now_high_ms"] for row in steps)
    return (
        f"cause first {right} of {count}, within 30% {close}, inside the interval {inside}; "
        f"the step as it is inside its interval {held} of {len(steps)}"
    )


def main() -> None:
    """Judge every pair of the folders."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    for folder in chosen.folders:
        truth = json.loads((folder / "truth.json").read_text())
        rows += [judged(folder, name, truth[name]) for name in sorted(truth)]
    for row in rows:
        sign = "  " if row.get("right") or not row["pays"] else "! "
        told = f"{row.get('predicted_ms', 0):9.3f} ms for {row['good_ms']:9.3f}"
        print(f"{sign}{row['name']:20} {row['first']:18} {told} {row.get('inside', '')}")
    for which in ("fitted", "held out", "new", "applied"):
        if mine := [row for row in rows if row["set"] == which]:
            print(f"{which}: {summary(mine)}")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
