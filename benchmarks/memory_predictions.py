"""Predicted peaks of memory beside measured ones, and categories beside the program's own tensors.

    python benchmarks/memory_predictions.py [FOLDER]

FOLDER holds NAME.pickle.xz, the snapshot of the first program of each pair, and truth.json.xz, what
torch's counters said of both (tests/recorded/memory, without three that are too large for it and
without those that were held out).
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from foretrace.memory import device_document, fixes
from foretrace.read import recordings
from foretrace.read.snapshot import Owner, Snapshot, read_snapshot
from foretrace.trace.allocator.categories import CATEGORIES
from foretrace.trace.allocator.view import MemoryView

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "recorded" / "memory"
RESULT = Path(__file__).parent / "results" / "h200-memory-predictions.json"
# the fix that the second program of a pair has
PAIRS = {
    "ckpt_gpt": "checkpoint_blocks",
    "ckpt_mlp": "checkpoint_blocks",
    "ckpt_conv": "checkpoint_blocks",
    "ckpt_long": "checkpoint_blocks",
    "logits_50k": "smaller_logits",
    "logits_128k": "smaller_logits",
    "fused_adam": "optimizer_in_place",
    "fused_adam_gpt": "optimizer_in_place",
    "zero_grad": "set_to_none",
    "zero_grad_gpt": "set_to_none",
    "accumulate": "accumulate",
    "accumulate_mlp": "accumulate",
    "bf16_params": "half_precision_state",
    "outlive": "earlier_release",
    "leak": "earlier_release",
    "no_grad": "inference_mode",
    "kv_cat": "static_cache",
    "ragged": "expandable_segments",
    "batch": "twice the batch",
    "batch_mlp": "four times the batch",
}
# recorded after the fixes were written, and run once (tests/recorded/memory/held_out.py.txt)
HELD_OUT = {
    "h_ckpt_llama": "checkpoint_blocks",
    "h_ckpt_vit": "checkpoint_blocks",
    "h_ckpt_unet": "checkpoint_blocks",
    "h_logits_llama": "smaller_logits",
    "h_fused_llama": "optimizer_in_place",
    "h_zero_vit": "set_to_none",
    "h_accumulate_vit": "accumulate",
    "h_total_llama": "earlier_release",
    "h_no_grad_vit": "inference_mode",
    "h_batch_vit": "twice the batch",
    "h_batch_unet": "four times the batch",
    "h_batch_llama": "twice the batch",
}
PARTS = {"logits_50k": 16, "accumulate_mlp": 8}  # of the second program; the others have ours
SHIPPED = {"leak": "gpt_leak", "logits_50k": "gpt_logits", "no_grad": "gpt_no_grad"}
TIMES = {"twice the batch": 2, "four times the batch": 4}
NAMED = ("zero_grad", "zero_grad_gpt", "h_zero_vit")  # without owners such gradients are unknown
KINDS = {"parameter": "parameters", "gradient": "gradients", "optimizer": "optimizer state"}
LOGITS, SPLIT = fixes.LOGITS_PARTS, fixes.BATCH_PARTS


def rows(folder: Path, truth: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each pair whose snapshot is there."""
    for name, fix in (PAIRS | HELD_OUT).items():
        path = recordings.snapshots().get(SHIPPED.get(name, ""), folder / f"{name}.pickle.xz")
        if path.exists():
            yield _row(name, fix, read_snapshot(str(path)), truth[name])


def _row(name: str, fix: str, snapshot: Snapshot, truth: dict[str, Any]) -> dict[str, Any]:
    bad, good = truth["bad"], truth["good"]
    if name in NAMED:
        owners = [Owner(addr, kind, told) for addr, _, kind, told in bad["owners"]]
        snapshot = replace(snapshot, owners=owners)
    view = MemoryView(snapshot, snapshot.histories[0])
    counted = "peak_reserved" if fix == "expandable_segments" else "requested_peak"
    fixes.LOGITS_PARTS, fixes.BATCH_PARTS = LOGITS, SPLIT
    found = device_document(view).fixes
    row = {"name": name, "fix": fix, "first": found[0].name if found else "", "bytes": bad[counted]}
    fixes.LOGITS_PARTS, fixes.BATCH_PARTS = (PARTS.get(name, each) for each in (LOGITS, SPLIT))
    told = [each for each in fixes.predicted(view) if each.name == fix]
    if fix in TIMES:
        row["predicted"] = fixes.peak_at_batch(view, TIMES[fix])
    elif told:
        row["predicted"] = told[0].reserved_bytes or told[0].peak_bytes
    times = [each.get("step_ms") for each in (bad, good)]
    return {
        **row,
        "measured": good[counted],
        "peak_is_counter": view.peak_bytes == bad["requested_peak"],
        "step_ms": times if all(times) else None,
        "tensors": _tensors(view, bad),
    }


def _tensors(view: MemoryView, truth: dict[str, Any]) -> dict[str, Any] | None:
    """How many tensors that the program owns have the right category, without their names."""
    if "owners" not in truth or view.snapshot.owners:
        return None
    owners = {addr: KINDS[kind] for addr, _, kind, _ in truth["owners"]}
    held = [row for row in np.flatnonzero(view.lives.kept) if int(view.lives.addr[row]) in owners]
    told = [CATEGORIES[int(view.category[row])] for row in held]
    true = [owners[int(view.lives.addr[row])] for row in held]
    right = sum(mine == theirs for mine, theirs in zip(told, true, strict=True))
    size = view.lives.size
    wrong = [
        sum(int(size[row]) * ((mine == kind) - (theirs == kind)) for row, mine, theirs in each)
        for kind in KINDS.values()
        if (each := list(zip(held, told, true, strict=True)))
    ]
    off = max(map(abs, wrong)) / view.peak_bytes
    return {"from_start": truth["from_start"], "right": right, "of": len(held), "off": off}


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDED
    counters = json.loads(lzma.decompress((place / "truth.json.xz").read_bytes()))
    result = list(rows(place, counters))
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for each in result:
        error = each["predicted"] / each["measured"] - 1 if "predicted" in each else None
        print(each["name"], each["fix"], f"{error:+.1%}" if error is not None else "not predicted")
