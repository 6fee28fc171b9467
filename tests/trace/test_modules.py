"""nn.Modules of a trace: names, calls, and the work in and below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.build import instant
from corpus.builder import TraceBuilder
from corpus.places import recorded_traces
from foretrace.trace.flame import Stacks
from foretrace.trace.modules import ModuleWork
from foretrace.trace.trace import Trace
from opened_traces import open_made, opened

MODULES = Path(__file__).parents[1] / "recorded" / "llama_train_modules.json.gz"


def test_modules_count_what_their_submodules_launch() -> None:
    trace = opened(MODULES)
    found = {module.name: module for module in trace.modules.rows}
    norm, layer = found["LlamaRMSNorm_0"], found["LlamaDecoderLayer_0"]
    assert (norm.kind, norm.calls, norm.kernels) == ("LlamaRMSNorm", 2, 16)
    assert norm.path == ("LlamaForCausalLM_0", "LlamaModel_0", "LlamaDecoderLayer_0")
    inside = [module for module in found.values() if module.path[-1:] == (layer.name,)]
    assert layer.kernels == sum(module.kernels for module in inside) + 2 * 2  # residual sums
    assert layer.gpu_ns > sum(module.gpu_ns for module in inside)


MAIN, AUTOGRAD = 100, 200
ENGINE = "autograd::engine::evaluate_function: "


class Program:
    """Builds a training step on two threads; every launch has one kernel of a stated time."""

    def __init__(self) -> None:
        self.built, self.clock = TraceBuilder(), 50_000

    def module(self, name: str, ts: int, dur: int, tid: int = MAIN) -> Program:
        self.built.host("python_function", f"nn.Module: {name}", ts, dur, tid=tid)
        return self

    def frame(self, name: str, ts: int, dur: int, tid: int = MAIN) -> Program:
        self.built.host("python_function", name, ts, dur, tid=tid)
        return self

    def op(self, name: str, ts: int, dur: int, number: int, tid: int = MAIN) -> Program:
        self.built.op(name, ts, dur, args={"Sequence number": number, "Fwd thread id": 0}, tid=tid)
        return self

    def node(self, name: str, ts: int, dur: int, number: int, thread: int = 1) -> Program:
        args = {"Sequence number": number, "Fwd thread id": thread}
        self.built.op(f"{ENGINE}{name}", ts, dur, args=args, tid=AUTOGRAD)
        return self

    def kernel(self, ts: int, ns: int, tid: int = MAIN) -> Program:
        self.built.launch(ts, 10, tid=tid).kernel("k", self.clock, ns)
        self.clock += ns
        return self

    def opened(self, folder: Path) -> Trace:
        return open_made(self.built, folder)


def _times(trace: Trace) -> dict[str, tuple[int, int, int]]:
    return {
        "/".join((*row.path, row.name)): (row.forward_ns, row.backward_ns, row.recomputed_ns)
        for row in trace.modules.rows
    }


def _total(rows: list[ModuleWork]) -> int:
    return sum(row.total_ns for row in rows if not row.path)


def test_backward_work_belongs_to_the_module_of_its_forward_op(tmp_path: Path) -> None:
    program = Program().module("Net_0", 0, 10_000).module("Linear_0", 1_000, 2_000)
    program.op("aten::mm", 1_100, 500, 7).kernel(1_200, 100)
    program.op("aten::sum", 5_000, 500, 8).kernel(5_100, 20)
    program.node("SumBackward0", 11_000, 500, 8).kernel(11_100, 3, AUTOGRAD)
    program.node("MmBackward0", 12_000, 500, 7).kernel(12_100, 200, AUTOGRAD)
    accumulate = f"{ENGINE}torch::autograd::AccumulateGrad"
    program.built.op(accumulate, 13_000, 500, tid=AUTOGRAD)
    program.kernel(13_100, 4, AUTOGRAD)
    program.built.region("Optimizer.step#SGD.step", 15_000, 1_000)
    program.kernel(15_100, 50).kernel(17_000, 6)
    trace = program.opened(tmp_path)
    assert _times(trace) == {
        "Net_0": (120, 203, 0),
        "Net_0/Linear_0": (100, 200, 0),
        "optimizer": (50, 0, 0),
        "outside modules": (6, 0, 0),
        "gradient accumulation": (4, 0, 0),
    }
    assert _total(trace.modules.rows) == int(trace.gpu.length.sum()) == 383


def test_modules_of_a_cpu_have_its_time(tmp_path: Path) -> None:
    """`record` begins a step in a hook of the model: the step crosses the call and owns no op."""
    program = Program().module("Net_0", 0, 10_000).module("Linear_0", 1_000, 2_000)
    program.built.step(1, 500, 19_500)
    program.op("aten::mm", 1_100, 500, 7).op("aten::sum", 5_000, 600, 8)
    for name, ts, number in (("SumBackward0", 11_000, 8), ("MmBackward0", 12_000, 7)):
        args = {"Sequence number": number, "Fwd thread id": 1}
        program.built.op(f"{ENGINE}{name}", ts, 300, args=args)
    program.built.region("Optimizer.step#SGD.step", 15_000, 1_000).op("aten::add_", 15_100, 40)
    program.built.op("aten::rand", 17_000, 50)
    trace = program.opened(tmp_path)
    assert _times(trace) == {
        "Net_0": (10_000, 600, 0),
        "Net_0/Linear_0": (2_000, 300, 0),
        "optimizer": (40, 0, 0),
        "outside modules": (50, 0, 0),
        "outside of ops (Python)": (19_500 - 9_500 - 600 - 40 - 50, 0, 0),
    }
    assert not trace.ledger.count("cpu_crossing")


def test_a_module_inside_the_backward_pass_is_recomputed(tmp_path: Path) -> None:
    program = Program().module("Net_0", 0, 10_000).module("Block_0", 1_000, 2_000)
    program.op("aten::mm", 1_100, 500, 7).kernel(1_200, 100)
    program.node("MmBackward0", 12_000, 5_000, 7).module("Block_0", 12_100, 1_000, AUTOGRAD)
    program.op("aten::mm", 12_200, 500, 1, AUTOGRAD).kernel(12_300, 90, AUTOGRAD)
    program.kernel(14_000, 200, AUTOGRAD)
    trace = program.opened(tmp_path)
    assert _times(trace) == {"Net_0": (100, 200, 90), "Net_0/Block_0": (100, 200, 90)}
    assert [row.calls for row in trace.modules.rows] == [1, 2]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_without_frames_on_its_thread(tmp_path: Path, reentrant: bool) -> None:
    """Autograd's own thread has no Python frames: the checkpoint's module is known from the forward
    pass, and its parts are not.
    """
    program = Program().module("Net_0", 0, 10_000)
    if reentrant:
        program.op("CheckpointFunction", 900, 3_000, 6)
    else:
        program.frame("torch/utils/checkpoint.py(354): checkpoint", 900, 3_000)
    program.module("Block_0", 1_000, 2_000).module("Linear_0", 1_050, 900)
    number = {} if reentrant else {"Sequence number": 7, "Fwd thread id": 0}
    program.built.op("aten::mm", 1_100, 500, args=number)
    program.kernel(1_200, 100)
    if reentrant:
        program.node("CheckpointFunctionBackward", 12_000, 5_000, 6)
        program.op("aten::mm", 12_200, 500, 3, AUTOGRAD).kernel(12_300, 90, AUTOGRAD)
        program.node("MmBackward0", 14_000, 1_000, 3, 2).kernel(14_100, 200, AUTOGRAD)
    else:
        program.node("MmBackward0", 12_000, 5_000, 7)
        program.op("aten::mm", 12_200, 500, 3, AUTOGRAD).kernel(12_300, 90, AUTOGRAD)
        program.kernel(14_100, 200, AUTOGRAD)
    found = _times(program.opened(tmp_path))
    assert found["Net_0/Block_0"] == (100, 200, 90)
    assert found["Net_0/Block_0/Linear_0"] == ((100, 0, 0) if reentrant else (100, 200, 0))


def test_memory_that_modules_keep(tmp_path: Path) -> None:
    program = Program().module("Net_0", 0, 10_000).module("Linear_0", 1_000, 2_000)
    program.op("aten::mm", 1_100, 500, 7).kernel(1_200, 100)
    for ts, size in ((1_150, 512), (2_000, -128), (5_000, 64), (20_000, 4_096)):
        args = {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": size}
        at = program.built.origin_ns + ts
        event = instant("[memory]", program.built.pid, MAIN, at)
        program.built.events.append(event | {"cat": "cpu_instant_event", "args": args})
    rows = {row.name: row.memory_bytes for row in program.opened(tmp_path).modules.rows}
    assert rows == {"Net_0": 448, "Linear_0": 384}


def test_modules_own_the_recorded_training_step() -> None:
    trace = opened(MODULES)
    rows, whole = trace.modules.rows, int(trace.gpu.length.sum())
    assert _total(rows) == whole == 6_454_569
    outside = {row.name: row.total_ns for row in rows if not row.kind}
    assert outside == {"optimizer": 897_728, "outside modules": 1_502}
    model = rows[0]
    assert (model.forward_ns, model.backward_ns, model.recomputed_ns) == (2_124_331, 3_431_008, 0)
    head = next(row for row in rows if row.name == "Linear_14")
    assert head.flops == 2 * 3 * 2 * 2048 * 768 * 32_000  # two steps, three matmuls


@pytest.mark.parametrize("path", recorded_traces()[::6], ids=lambda path: path.name)
def test_stacks_and_outermost_rows_add_up(path: Path) -> None:
    trace = opened(path)
    whole = int(trace.gpu.length.sum())
    assert sum(stack.ns for stack in Stacks(trace).every()) == whole
    assert not trace.modules.rows or _total(trace.modules.rows) == whole
