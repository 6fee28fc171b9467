from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel
from foretrace.analyze.fixes import _typical
from opened_traces import open_made


def small(sketch: Sketch) -> Sketch:
    for _ in range(40):
        sketch.op("aten::mm", kernel(GEMM, 2), us=25, dims=[[64, 64], [64, 64]])
    return sketch


def test_one_launch_brings_all(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(small)
    assert found.first == ""
    assert now > 950
    assert 150 < then < 260


def test_only_compiled_code_gets_its_graph_by_a_mode(fix: FixUnderTest) -> None:
    """Of eager code the mode fuses kernels too, and takes another time."""
    region = "Torch-Compiled Region: 0/0"
    (eager,) = fix.proposals(small)
    (compiled,) = fix.proposals(lambda sketch: small(sketch.op(region)))
    assert eager.order == "CUDA graph (torch.cuda.make_graphed_callables)"
    assert compiled.order == 'CUDA graph (torch.compile(mode="reduce-overhead"))'


def test_python_and_the_optimizer_keep_their_time(fix: FixUnderTest) -> None:
    def trained(sketch: Sketch) -> None:
        small(sketch)
        sketch.host("user_annotation", "Optimizer.step#AdamW.step", 700).pause(2_000)

    _, _, then = fix.goes(trained)
    assert 2_800 < then < 3_000


def test_a_wait_goes_first_and_a_graph_stays(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: small(sketch).sync())
    assert found.first == "1 wait of the host (torch.cuda.synchronize())"
    launched = fix.proposals(lambda sketch: small(sketch).graph())
    assert launched == []


def test_of_one_step_the_shapes_of_others_are_unknown(fix: FixUnderTest) -> None:
    """A call that ran once outside of a step is no work for a graph."""
    one = _typical.predicted(open_made(small(Sketch().step()), fix.folder))
    assert one is not None
    (found,) = [each.proposal for each in one.fixes if each.fix == "cuda_graph"]
    assert found.why.endswith("other shapes are unknown")
    whole = _typical.predicted(open_made(small(Sketch()), fix.folder))
    assert whole is not None
    assert "cuda_graph" not in {each.fix for each in whole.every}


def test_numbers_may_differ_between_steps_and_shapes_may_not(fix: FixUnderTest) -> None:
    """AdamW's foreach ops have another step size in each step."""

    def obstacle(second: int, number: str) -> str:
        sketch = Sketch()
        for rows, value in ((64, "0.1"), (second, number)):
            small(sketch.step())
            sketch.op("aten::mul", kernel(GEMM, 2), dims=[[rows, 64], []], concrete=["", value])
        now = _typical.predicted(open_made(sketch, fix.folder))
        assert now is not None
        (found,) = [each.proposal for each in now.fixes if each.fix == "cuda_graph"]
        return found.first

    assert obstacle(64, "0.2") == ""
    assert obstacle(32, "0.1") == "shapes that differ between steps"


def test_a_batch_of_an_engine_keeps_its_attention_and_what_is_no_layer(fix: FixUnderTest) -> None:
    sketch = Sketch().region("execute_context_1(888_788544)_generation_0(0)").pause(100)
    for _ in range(3):
        sketch.op("vllm::unified_attention_with_output", kernel(GEMM, 2), us=100)
        small(sketch)
    found = _typical.predicted(open_made(sketch, fix.folder))
    assert found is not None
    (graph,) = [each.proposal for each in found.every if each.fix == "cuda_graph"]
    assert graph.order == "CUDA graph in the engine (no enforce_eager, sizes up to 888)"
    assert graph.first == ""
    began = found.step.span.start_ns
    # 100 us before the layers, 100 us of attention, 1,000 us of 40 ops; the last layer counts as end
    assert [(start - began, end - began) for start, end in graph.change.removed] == [
        (200_000, 1_200_000),
        (1_300_000, 2_300_000),
    ]
