"""What the first screen says of a step holds as a prediction: its time without the profiler, where
the run record has it, how busy the GPU is in it, and the kernels of its layers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from analyze.guess.conftest import H200, recorded, without
from corpus.builder import TraceBuilder
from corpus.places import PUBLIC
from foretrace.analyze.guess import check, parse
from foretrace.show.overview import look
from opened_traces import open_made, opened

# llama: 9.19 to 9.83 ms with the profiler, 7.19 ms without
LLAMA = H200 / "ladder" / "model_llama_4x512x4x768x12x3072x32000_bf16"


@pytest.fixture
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Verdict and measured text of a sentence, on llama with this timing in its record."""
    for file in LLAMA.parent.glob(f"{LLAMA.name}.*"):
        shutil.copy(file, tmp_path)
    path = tmp_path / f"{LLAMA.name}.run.json"
    record = json.loads(path.read_text())
    change: dict[str, Any] = getattr(request, "param", {})
    record["timing"] |= change.get("timing", {})
    record["rung"] |= change.get("rung", {})
    path.write_text(json.dumps(record))
    trace = ft.open(tmp_path / f"{LLAMA.name}.json.gz", cache=False)

    def judge(text: str) -> tuple[str, str]:
        (found,) = check(trace, [parse(text)])
        return found.verdict, found.measured

    return judge


RECORDED = "7.19 ms (without the profiler)"
PROFILED = "9.59 ms (includes profiler overhead)"
NO_RECORD = {"timing": {"wall_ns_per_call": None}}
OF_STEPS = {
    "timing": {"wall_ns_per_call": 6e6, "block_ns": [5e6, 6e6, 9e6]},
    "rung": {"region": None},
}


@pytest.mark.parametrize(
    "text",
    ["step < 8 ms", "step time is 7.2 ms", "a step takes about 7 ms", "no step takes more than 9 ms",
     "per step: step time < 8 ms", "per step: wall time < 8 ms", 'region "model_fwd" takes about 7 ms'],
)  # fmt: skip
def test_a_run_record_says_it(judged: Any, text: str) -> None:
    assert judged(text) == ("hit", RECORDED)


@pytest.mark.parametrize("name", ["linear_eager_1024x32x64_bf16", "mlp_fused_64x128x768x3072_bf16"])
def test_it_is_what_the_first_screen_says(name: str) -> None:
    trace = opened(LLAMA.parent / f"{name}.json.gz")
    busy, length = (
        found.measured for found in check(trace, [parse("gpu busy > 0%"), parse("step > 0 ms")])
    )
    said = look(trace).verdict.text
    assert f"({busy.partition(' ')[0]})" in said
    assert f"of {length.partition(' (')[0]} per step" in said


def test_without_steps_it_is_unknown(tmp_path: Path) -> None:
    trace = without(tmp_path, "mlp_eager", drop=lambda event: "annotation" in event.get("cat", ""))
    (found,) = check(trace, [parse("step < 8 ms")])
    assert (found.verdict, found.why[:22]) == ("unknown", "the trace has no steps")


def test_host_time_is_that_with_the_profiler(judged: Any) -> None:
    assert judged("per step: cpu time < 8 ms") == ("miss", PROFILED)
    assert judged("the longest step takes 9.83 ms") == ("hit", "9.83 ms (longest of 3)")


@pytest.mark.parametrize("judged", [NO_RECORD], indirect=True)
def test_without_a_record_it_is_host_time(judged: Any) -> None:
    assert judged("step < 8 ms") == ("miss", PROFILED)
    assert judged("step takes 9.6 ms") == ("hit", PROFILED)
    assert judged("per step: wall time < 8 ms")[0] == "unknown"


@pytest.mark.parametrize("judged", [OF_STEPS], indirect=True)
def test_every_step_is_each_that_was_timed(judged: Any) -> None:
    assert judged("a step takes 6 ms") == ("hit", "6.00 ms (without the profiler)")
    assert judged("every step takes less than 8 ms") == (
        "miss",
        "5.00 ms to 9.00 ms (without the profiler)",
    )
    assert judged("a step takes more than 8 ms")[0] == "hit"
    assert judged("per step: wall time < 8 ms")[0] == "hit"


# GPU busy 1.11 of 7.19 ms per step; RMSNorm: 72 kernels, 8 kernels each
SCREEN = """
the gpu is busy 1.1 ms per step = hit
the gpu is busy for about 1.1 ms = hit
gpu idle > 6 ms = hit
gpu busy > 1.2 ms = miss
rmsnorm consists of 8 kernels = hit
rmsnorm is made of 7 kernels = miss
every rmsnorm launches 8 kernels = hit
rmsnorm has 72 kernels per step = hit
rmsnorm is 8 kernels = unknown
rmsnorm has 72 kernels = unknown
residual add takes 2% of the gpu time = hit
"""


def test_sentences_of_the_screen() -> None:
    wanted = dict(line.rsplit(" = ", 1) for line in SCREEN.strip().splitlines())
    found = check(opened(Path(f"{LLAMA}.json.gz")), list(wanted))
    assert {one.text: one.verdict for one in found} == wanted


def test_busy_in_a_step_or_in_all() -> None:
    (found,) = check(recorded("mlp_eager"), ["gpu busy < 300 us"])
    assert (found.verdict, found.why[-20:]) == ("unknown", ": say which is meant")


# convolution 5.31 ms per call, of which its kernels are 4.45; residual add 13.0 us, 4%
PAGES = """
a100_alexnet: convolutions take 8% of the gpu time = unknown
a100_alexnet: conv takes 20% of the gpu time = miss
a100_alexnet: pooling is 1.4% of the gpu time = hit
h100_bert_small: residual add is 4% of gpu time = hit
h100_bert_small: 8 residual adds = hit
h100_bert_small: adds take more than half of the gpu time = miss
h100_bert_small: add is fused into the matmul = hit
"""


@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_groups_of_the_screen() -> None:
    for line in PAGES.strip().splitlines():
        name, said = line.split(": ", 1)
        text, verdict = said.rsplit(" = ", 1)
        (found,) = check(opened(Path(PUBLIC) / f"{name}.json.gz"), [text])
        assert found.verdict == verdict, line


def test_a_bias_in_a_matmul_is_no_add() -> None:
    gpt2 = opened(LLAMA.with_name("model_gpt2_4x512x4x768x12x3072x32000_bf16.json.gz"))
    found = check(gpt2, ["adds take more than 20% of the gpu time", "add is fused into the matmul"])
    assert [one.verdict for one in found] == ["miss", "hit"]


def test_a_linear_layer_on_a_cpu_is_its_op(tmp_path: Path) -> None:
    builder = TraceBuilder().step(0, 0, 100)
    builder.op("aten::linear", 10, 50).op("aten::addmm", 15, 40)
    document = json.loads(builder.bytes())
    document.pop("deviceProperties", None)
    trace = open_made(document, tmp_path)
    said = ["linear takes 50% of the step", "matmuls take 40% of the step"]
    said.append("on the CPU, linear takes more than 1.2 times as long as the matmuls")
    assert [one.verdict for one in check(trace, said)] == ["hit"] * 3


@pytest.mark.parametrize(
    "name", ["linear_eager", "llama_train_eager", "mlp_eager", "mlp_eager_train"]
)
def test_the_bound_of_the_first_screen_is_no_miss(name: str) -> None:
    """Without a run record `look` estimates the time without the profiler: where that has another
    bound than the recorded time, neither is a miss."""
    trace = recorded(name)
    shown = look(trace).verdict.bound
    said, as_recorded = check(trace, [f"bound is {shown}", "bound is host"])
    estimated = name == "mlp_eager_train"  # idle for 59.7% as recorded, for 40.7% as estimated
    assert said.verdict == ("unknown" if estimated else "hit")
    assert as_recorded.verdict == ("unknown" if estimated else "hit" if shown == "host" else "miss")
    assert ("without the profiler" in said.why) == estimated
