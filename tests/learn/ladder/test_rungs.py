"""Every rung: what it declares, what its recordings hold, and how it is built."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretrace.read.recordings
from foretrace.base.errors import MissingError
from foretrace.learn import ladder
from foretrace.learn.ladder import file_name
from foretrace.record.rung import COMPILED, Choice, Rung, Setup
from sweep import looped

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
    "mlp_liger_packed_64x128x768x3072_bf16": (5, 0, 1),
    "train_step_forloop_4x512x4x768x12x3072x32000_bf16": (418, 0, 10),
}


def events(path: Path) -> list[dict[str, Any]]:
    return [
        event
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        if event.get("ph") == "X"
    ]


@looped("trace", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
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


@looped("name", PER_STEP)
def test_a_step_launches_what_it_promises(name: str) -> None:
    found = Counter(event["cat"] for event in events(H200 / "ladder" / f"{name}.json.gz"))
    assert tuple(found[kind] / 3 for kind in GPU) == PER_STEP[name]


RUNGS = ladder.rungs()
NEEDS_GPU = {
    ("mlp", "liger"),
    ("mlp", "liger_packed"),
    ("block", "liger"),
    ("attention", "efficient"),
    ("attention", "cudnn"),
}
PAIRS = [(rung, variant) for rung in RUNGS for variant in rung.variants]

Counts = Callable[[Path], Counter[str]]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_rung_declares_itself(rung: Rung) -> None:
    assert rung.title
    assert all(rung.variants.values())
    assert COMPILED not in rung.variants
    names = [option.name for option in rung.options]
    assert len(set(names)) == len(names)
    for option in rung.options:
        assert option.help
        assert option.small is None or type(option.small) is type(option.default)
        assert not option.choices or option.default in option.choices


@pytest.mark.sweep(5)
@pytest.mark.torch
@pytest.mark.parametrize(
    ("rung", "variant"), PAIRS, ids=[f"{rung.name}-{variant}" for rung, variant in PAIRS]
)
def test_every_variant_runs_on_a_cpu_or_says_what_is_missing(
    rung: Rung, variant: str, tmp_path: Path, counts: Counts
) -> None:
    pytest.importorskip("torch")
    if rung.name == "model":
        pytest.importorskip("transformers")
    choice = Choice(variant=variant, device="cpu", dtype="fp32", small=True)
    done, missing = _run(rung, choice, tmp_path)
    if done is None:
        assert variant != next(iter(rung.variants)), "the first variant of a rung runs everywhere"
        assert "\n" not in missing
        assert list(tmp_path.iterdir()) == []
        return
    said = json.loads(done.record_file.read_text())
    assert said["rung"]["name"] == rung.name
    assert (said["rung"]["variant"], said["rung"]["compiled"]) == (variant, False)
    assert set(said["rung"]["options"]) == {option.name for option in rung.options}
    assert done.trace.name.startswith(f"{rung.name}_{variant}_")
    found = counts(done.trace)
    assert found[said["rung"]["region"]] == 2
    assert (found["ProfilerStep#2"], found["ProfilerStep#3"]) == (1, 1)


def _run(rung: Rung, choice: Choice, folder: Path) -> tuple[Any, str]:
    try:
        return ladder.run(rung, choice, folder, steps=2, warmup=1), ""
    except MissingError as problem:
        return None, str(problem)


@pytest.mark.torch
@pytest.mark.parametrize(("name", "variant"), sorted(NEEDS_GPU))
def test_what_needs_a_gpu_says_so_in_one_line(name: str, variant: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MissingError) as caught:
        ladder.run(ladder.rung(name), Choice(variant=variant, device="cpu"), tmp_path)
    assert caught.value.exit_code == 4
