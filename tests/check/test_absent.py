"""No prediction about absent data is ever a hit: take the data out and see `unknown`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from check.conftest import TEXTS, recorded, without
from foretrace.check import check, parse
from foretrace.trace.trace import Trace

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
# What the host alone decides, of all examples.
HOST = {
    "per step: sync == 0",
    "launches < 50",
    "in mlp_fwd: aten::linear == 3",
    "in aten::linear: distinct ops == 9",
    "no call cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    'op "Torch-Compiled Region*" == 3',
    "steps == 3",
    "per step: item == 0",
    "uses cuda graphs",
    "graphs == 1",  # of a program without torch.compile: CUDA graphs
    "every aten::mm comes from ProfilerStep* > mlp_fwd",
    "some aten::mm takes 8192x768 and 768x3072",
    "every aten::gelu takes 64x128x3072",
    "some aten::mm takes strides 768x1 and 1x768",
    "in mlp_fwd: same ops as A",
    "per step: cpu time < 1 ms",
    "in mlp_fwd: cpu time > 1x of A",
    "aten::addmm before call cudaDeviceSynchronize",
    "gelu is called once per step",
    "cudaMalloc is called in every step",
    ".item() syncs 32 times per step",
    "step 4 is slower than step 3",
    "step 3 is the slowest step",
    "card is H200",
    "weights are int8",
}
# What needs shapes: flops, bytes, rates, inputs, and bounds that are not the host's.
SHAPES = {
    "every gemm is compute-bound",
    "every pointwise has bound memory",
    "gelu is memory-bound",
    "gemm has roof > 60",
    "mfu > 20%",
    "gpu mfu > 40%",
    "per step: mbu < 90%",
    "some aten::mm takes 8192x768 and 768x3072",
    "every aten::gelu takes 64x128x3072",
    "some aten::mm takes strides 768x1 and 1x768",
    "per step: compute-bound",
    "gemm flops == 38.65 GFLOP each",
    "in mlp_fwd: gemm flops == 116 GFLOP",
    "in mlp_fwd: pointwise bytes == 252 MB",
    "gemm rate > 500 TFLOP/s",
    "gemm reaches 500 TFLOPS",
    "pointwise bandwidth > 2 TB/s",
    "weights are int8",
}


def _dropping(*categories: str) -> Any:
    return lambda event: event.get("cat") in categories


def _marks(trace: Trace, texts: list[str]) -> dict[str, str]:
    return {
        verdict.text: verdict.verdict for verdict in check(trace, texts, recorded("mlp_compiled"))
    }


def _are(trace: Trace, verdicts: dict[str, str]) -> None:
    assert _marks(trace, list(verdicts)) == verdicts


def _known(trace: Trace, texts: list[str]) -> set[str]:
    return {text for text, verdict in _marks(trace, texts).items() if verdict in ("hit", "miss")}


def test_without_gpu_events_only_the_host_is_judged(tmp_path: Path) -> None:
    blind = without(tmp_path, "mlp_eager", drop=_dropping(*GPU))
    assert _known(blind, TEXTS) == HOST


def test_without_calls_no_kernel_can_be_placed(tmp_path: Path) -> None:
    """GPU events alone: what runs in a region or a step is not known, and a count of zero would be
    a lie.
    """
    blind = without(tmp_path, "mlp_eager", drop=_dropping(*CALLS))
    placed = [text for text in TEXTS if parse(text).scope.kind != "trace"]
    assert _known(blind, placed) <= HOST
    _are(
        blind,
        {
            "in mlp_fwd: kernels == 0": "unknown",
            "in mlp_fwd: no memcpy": "unknown",
            "kernels == 15": "hit",
        },
    )


def test_without_shapes(tmp_path: Path) -> None:
    shapeless = without(
        tmp_path, "mlp_eager", args=("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    )
    known = _known(recorded("mlp_eager"), TEXTS)
    assert known - _known(shapeless, TEXTS) == SHAPES


def test_without_steps(tmp_path: Path) -> None:
    stepless = without(
        tmp_path,
        "mlp_eager",
        drop=lambda event: str(event.get("name", "")).startswith("ProfilerStep"),
    )
    about_steps = [
        text for text in TEXTS if "step" in text.split(":")[0] or text.endswith("per step")
    ]
    assert len(about_steps) >= 8
    assert _known(stepless, about_steps) == set()
    _are(
        stepless,
        {
            "steps == 0": "unknown",
            "no steps": "unknown",
        },
    )


def test_a_lost_kernel_leaves_open_what_it_could_overturn(tmp_path: Path) -> None:
    """One launch without its GPU event: more than 14 is not known, fewer than 14 is."""
    first = next(event for event in _events("mlp_eager") if event.get("cat") == "kernel")
    torn = without(tmp_path, "mlp_eager", drop=lambda event: event == first)
    _are(
        torn,
        {
            "kernels == 15": "unknown",
            "kernels == 14": "unknown",
            "kernels >= 14": "hit",
            "kernels < 14": "miss",
            "kernels <= 13": "miss",
            "no memcpy": "unknown",
        },
    )
    _are(torn, {"in step 4: kernels == 5": "hit"})


def _events(name: str) -> list[dict[str, Any]]:
    import gzip
    import json

    from check.conftest import H200

    events: list[dict[str, Any]] = json.loads(
        gzip.decompress((H200 / f"{name}.json.gz").read_bytes())
    )["traceEvents"]
    return events


def test_against_nothing_is_unknown() -> None:
    texts = [text for text in TEXTS if text.endswith((" A", "of A"))]
    assert len(texts) >= 7
    assert {verdict.verdict for verdict in check(recorded("mlp_eager"), texts)} == {"unknown"}


def test_a_field_that_names_do_not_state_is_unknown() -> None:
    """An ATen name says nothing of the layout of a matmul, and Inductor's nothing of its type."""
    [dtype, layout, none, some] = check(
        recorded("mlp_compiled"),
        [
            "every pointwise has dtype bf16",
            "every pointwise has layout tn",
            "no pointwise is bf16",
            "some kernel is bf16",
        ],
    )
    assert (dtype.verdict, layout.verdict, none.verdict, some.verdict) == (
        "unknown",
        "miss",
        "unknown",
        "hit",
    )


def test_every_of_nothing_is_not_true() -> None:
    [every, some, no] = check(
        recorded("linear_eager"),
        ["every conv has layout tn", "some conv is bf16", "no conv is bf16"],
    )
    assert (every.verdict, some.verdict, no.verdict) == ("unknown", "miss", "hit")
