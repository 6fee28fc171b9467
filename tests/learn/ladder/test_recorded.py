"""The ladder's recorded traces: each has its record, is named by it, and holds the kernels that the
ladder promises.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import foretrace.read.recordings
from foretrace.learn import ladder
from foretrace.learn.ladder.stops import file_name
from foretrace.schema.rung import Choice, Setup

H200 = Path(foretrace.read.recordings.__file__).parent / "h200"
TRACES = sorted((H200 / "ladder").glob("*.json.gz"))
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
# Kernels, memcpys and memsets per step.
PER_STEP = {
    "attention_naive_8x16x1024x64_bf16": (5, 1, 1),
    "attention_inplace_8x16x1024x64_bf16": (5, 0, 1),
    "attention_math_8x16x1024x64_bf16": (20, 0, 0),
    "attention_efficient_8x16x1024x64_bf16": (1, 0, 0),
    "attention_flash_8x16x1024x64_bf16": (1, 0, 0),
    "attention_cudnn_8x16x1024x64_bf16": (1, 0, 1),
    "matmul_add_addmm_4096_bf16": (1, 1, 1),
    "matmul_add_addmm_4096_1d_bf16": (1, 0, 1),
    "linear_eager_8x32x64x128_bf16": (1, 0, 0),
    "mlp_liger_64x128x768x3072_bf16": (4, 0, 2),
    "train_step_forloop_4x512x4x768x12x3072x32000_bf16": (418, 0, 10),
}
# The same setups, captured earlier by a plain torch.profiler script: nothing about the GPU's work
# may differ.
EARLIER = {
    "linear_eager": "linear_eager_1024x32x64_bf16",
    "linear_compiled": "linear_compiled_1024x32x64_bf16",
    "matmul_add_64_eager": "matmul_add_eager_64_bf16",
    "matmul_add_64_compiled": "matmul_add_compiled_64_bf16",
    "matmul_add_4096_eager": "matmul_add_eager_4096_bf16",
    "matmul_add_4096_compiled": "matmul_add_compiled_4096_bf16",
    "mlp_eager": "mlp_eager_64x128x768x3072_bf16",
    "mlp_compiled": "mlp_compiled_64x128x768x3072_bf16",
    "mlp_liger": "mlp_liger_64x128x768x3072_bf16",
    "mlp_eager_train": "mlp_eager_64x128x768x3072_backward_bf16",
}


def events(path: Path) -> list[dict[str, Any]]:
    return [
        event
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        if event.get("ph") == "X"
    ]


def gpu_work(path: Path) -> Counter[tuple[str, str]]:
    return Counter((event["cat"], event["name"]) for event in events(path) if event["cat"] in GPU)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_a_trace_has_its_record_and_is_named_by_it(trace: Path) -> None:
    stem = trace.name.removesuffix(".json.gz")
    record = json.loads((trace.parent / f"{stem}.run.json").read_text())
    ran = record["rung"]
    rung = ladder.rung(ran["name"])
    setup = Setup(
        ran["device"], ran["dtype"], ran["variant"], ran["options"], compile=lambda thing: thing
    )
    choice = Choice(compile=ran["compiled"], mode=ran["mode"] or "default")
    assert (record["trace"], file_name(rung, setup, choice)) == (
        trace.name,
        stem.removesuffix(".timing"),
    )
    assert record["device"]["name"] == "NVIDIA H200"
    assert (record["compile"]["frames"] > 0) == ran["compiled"]
    assert record["compile"]["recompiles"] == []
    assert record["timing"]["wall_ns_per_call"] > 0
    steps = Counter(event["name"] for event in events(trace) if event["cat"] == "user_annotation")
    assert steps[ran["region"]] == 3
    assert [steps[f"ProfilerStep#{index}"] for index in (1, 2, 3, 4, 5)] == [0, 1, 1, 1, 0]


def test_every_variant_of_every_rung_is_there() -> None:
    records = [
        json.loads(path.read_text())["rung"] for path in (H200 / "ladder").glob("*.run.json")
    ]
    eager = {(ran["name"], ran["variant"]) for ran in records if not ran["compiled"]}
    declared = {
        (rung.name, variant) for rung in map(ladder.rung, ladder.ORDER) for variant in rung.variants
    }
    assert eager == declared
    assert {ran["name"] for ran in records if ran["compiled"]} == set(ladder.ORDER)


@pytest.mark.parametrize("name", PER_STEP)
def test_a_step_launches_what_it_promises(name: str) -> None:
    found = Counter(event["cat"] for event in events(H200 / "ladder" / f"{name}.json.gz"))
    assert tuple(found[kind] / 3 for kind in GPU) == PER_STEP[name]


@pytest.mark.parametrize("name", EARLIER)
def test_our_capture_changes_nothing_on_the_gpu(name: str) -> None:
    assert gpu_work(H200 / "ladder" / f"{EARLIER[name]}.json.gz") == gpu_work(
        H200 / f"{name}.json.gz"
    )
