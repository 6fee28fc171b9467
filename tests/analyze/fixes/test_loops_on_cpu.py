"""Loops, text and attention of a step that a CPU computes: the cause comes first, in its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_on_cpu import found, matmul
from analyze.rules.sketch import Sketch
from foretrace.analyze.fixes import FixPrediction

FLOAT = ["float"]
SCORES = [8, 64, 64]


def said(fixes: list[FixPrediction]) -> list[tuple[str, str]]:
    return [(fix.proposal.order, fix.proposal.why) for fix in fixes]


def element(sketch: Sketch, at: int) -> None:
    sketch.op("aten::select", us=4, dims=[[512], [], []], concrete=["", "0", str(at)])
    sketch.op("aten::item > aten::_local_scalar_dense", us=4, dims=[[]], types=FLOAT)


def test_elements_that_are_read_one_by_one(tmp_path: Path) -> None:
    def step(sketch: Sketch, count: int) -> None:
        matmul(sketch, us=200)
        for at in range(count):
            element(sketch, at)

    (fix,) = found(lambda sketch: step(sketch, 100), tmp_path)
    assert said([fix]) == [
        (
            "use tensor ops instead of this loop, and read their result once",
            "100 reads of numbers per step, one by one (.item(), float(), if)",
        )
    ]
    assert found(lambda sketch: step(sketch, 63), tmp_path) == []


def test_a_pause_in_a_loop_of_reads_counts_for_nobody(tmp_path: Path) -> None:
    """Another process took the core: the loop is one, and its 9 ms without an op are not its."""

    def step(sketch: Sketch, pause: float) -> None:
        matmul(sketch, us=200)
        for at in range(100):
            element(sketch, at)
            if at == 50:
                sketch.pause(pause)

    (quick,) = found(lambda sketch: step(sketch, 1), tmp_path)
    fixes = {fix.fix: fix for fix in found(lambda sketch: step(sketch, 9_000), tmp_path)}
    assert fixes["scalar_reads"].proposal.why == quick.proposal.why
    assert fixes["scalar_reads"].ns > 0.9 * 9_000_000


def test_rows_that_become_lists(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        matmul(sketch, us=200)
        for _ in range(64):
            sketch.op("aten::resolve_conj", us=2, dims=[[1000]], types=FLOAT)
            sketch.op("aten::resolve_neg", us=2, dims=[[1000]], types=FLOAT).pause(50)

    ((_, why),) = said(found(step, tmp_path))
    assert why == "64 reads of numbers per step, one by one (.tolist())"


@pytest.mark.parametrize("us", [20, 300])
def test_norms_that_are_logged(us: float, tmp_path: Path) -> None:
    """Reductions of 20 us, each with its read; after 300 us of work a read is no loop's."""

    def step(sketch: Sketch) -> None:
        matmul(sketch, us=200)
        for _ in range(80):
            sketch.op("aten::abs", us=us, dims=[[64, 64]], types=FLOAT)
            sketch.op("aten::linalg_vector_norm", us=us, dims=[[64, 64]], types=FLOAT)
            sketch.op("aten::item > aten::_local_scalar_dense", us=4, dims=[[]], types=FLOAT)

    expected = (
        "compute and read these numbers every N steps",
        "80 numbers per step computed and read alone (linalg_vector_norm)",
    )
    assert said(found(step, tmp_path)) == ([expected] if us == 20 else [])


def test_steps_of_a_sampler_are_no_loop_of_reads(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        for _ in range(80):
            matmul(sketch, us=90)
            sketch.op("aten::argmax", us=4, dims=[[64]], types=FLOAT)
            sketch.op("aten::item > aten::_local_scalar_dense", us=4, dims=[[]], types=FLOAT)

    assert found(step, tmp_path) == []


def text(sketch: Sketch, reads: int = 40) -> None:
    for name in ("isfinite", "ne", "__and__", "masked_select", "abs", "min", "max", "unbind"):
        sketch.op(f"aten::{name}", us=20, dims=[[64, 64]], types=FLOAT)
    for _ in range(reads):
        sketch.op("aten::item > aten::_local_scalar_dense", us=4, dims=[[]], types=FLOAT)


def test_tensors_that_become_text(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        matmul(sketch, us=200)
        text(sketch)
        text(sketch)

    order = "print every N steps"
    why = "text of 2 tensors per step (print, f-string, log): 80 values read alone"
    assert said(found(step, tmp_path)) == [(order, why)]
    why = "text of 1 tensor per step (print, f-string, log): 40 values read alone"
    assert said(found(text, tmp_path)) == [(order, why)]


def attention(sketch: Sketch, between: str = "", us: float = 1_000) -> None:
    types = ["float", "float"]
    sketch.op("aten::matmul > aten::bmm", us=us, dims=[[8, 64, 32], [8, 32, 64]], types=types)
    if between:
        sketch.op(between, us=us, dims=[SCORES], types=FLOAT)
    sketch.op("aten::softmax > aten::_softmax", us=us, dims=[SCORES], types=FLOAT)
    sketch.op("aten::matmul > aten::bmm", us=us, dims=[SCORES, [8, 64, 32]], types=types)


@pytest.mark.parametrize(
    ("between", "call"),
    [
        ("aten::div", "q, k, v"),
        ("aten::triu", "q, k, v, is_causal=True"),
        ("aten::bernoulli_", ""),  # dropout takes the math path
    ],
)
def test_attention_by_hand(between: str, call: str, tmp_path: Path) -> None:
    fixes = said(found(lambda sketch: attention(sketch, between), tmp_path))
    order = f"call F.scaled_dot_product_attention({call})"
    why = "matmul, softmax and matmul write out 1 score matrix"
    assert fixes == ([(order, why)] if call else [])


def test_attention_of_pytorchs_modules(tmp_path: Path) -> None:
    """`nn.MultiheadAttention` averages the scores that it returns; its fast path is one op."""

    def returned(sketch: Sketch) -> None:
        types = ["float", "float", "float"]
        dims = [[64, 64], [8, 64, 32], [8, 32, 64]]
        sketch.op("aten::baddbmm", us=1_000, dims=dims, types=types)
        sketch.op("aten::softmax > aten::_softmax", us=1_000, dims=[SCORES], types=FLOAT)
        sketch.op("aten::bmm", us=1_000, dims=[SCORES, [8, 64, 32]], types=types[:2])
        sketch.op("aten::mean", us=20, dims=[[2, 4, 64, 64]], types=FLOAT)

    def native(sketch: Sketch) -> None:
        inside, types = "aten::_native_multi_head_attention > aten::", ["float", "float"]
        sketch.op(f"{inside}bmm", us=1_000, dims=[[8, 64, 32], [8, 32, 64]], types=types)
        sketch.op(f"{inside}_softmax", us=1_000, dims=[SCORES], types=FLOAT)
        sketch.op(f"{inside}bmm", us=1_000, dims=[SCORES, [8, 64, 32]], types=types)

    why = "matmul, softmax and matmul write out 1 score matrix, and the mean over the heads is computed"
    order = "call nn.MultiheadAttention with need_weights=False"
    assert said(found(returned, tmp_path)) == [(order, why)]
    assert found(native, tmp_path) == []


@pytest.mark.parametrize(("state", "rounds"), [("aten::relu", 32), ("aten::tanh", 0)])
def test_a_loss_for_each_sample(state: str, rounds: int, tmp_path: Path) -> None:
    """Two matmuls and a tanh may be a cell, whose state the next round needs."""

    def step(sketch: Sketch) -> None:
        for at in range(32):
            where = ["", "0", str(at), str(at + 1), "1"]
            sketch.op("aten::slice", us=4, dims=[[32, 8], [], [], [], []], concrete=where)
            for _ in range(2):
                sketch.op("aten::mm", us=20, dims=[[1, 8], [8, 8]], types=["float", "float"])
            sketch.op(state, us=10, dims=[[1, 8]], types=FLOAT)
            sketch.op("aten::nll_loss_nd", us=10, dims=[[1, 8], [1]], types=["float", "long int"])
            sketch.op("aten::add", us=5, dims=[[], []], types=["float", "float"])

    order = "run all slices in one call, along a batch dimension"
    why = f"the same 6 ops run {rounds} times per step, on one slice each"
    assert said(found(step, tmp_path)) == ([(order, why)] if rounds else [])


def test_attention_by_hand_keeps_six_tenths(tmp_path: Path) -> None:
    (fix,) = found(attention, tmp_path)
    assert fix.ns == pytest.approx(0.6 * 3_000_000, rel=0.01)


def test_a_softmax_of_other_scores_is_no_attention(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        types = ["float", "float"]
        sketch.op("aten::bmm", us=900, dims=[[8, 64, 32], [8, 32, 64]], types=types)
        sketch.op("aten::_softmax", us=900, dims=[[8, 64, 10]], types=FLOAT)
        sketch.op("aten::bmm", us=900, dims=[SCORES, [8, 64, 32]], types=types)

    assert found(step, tmp_path) == []


def test_a_sort_of_which_five_are_read(tmp_path: Path) -> None:
    def step(sketch: Sketch, end: int) -> None:
        kinds = ["float", "Scalar", "Scalar"]
        sketch.op("aten::sort", us=5_000, dims=[[32, 20_000], [], []], types=kinds)
        dims, places = [[32, 20_000], [], [], [], []], ["", "1", "0", str(end), "1"]
        sketch.op("aten::slice", us=10, dims=dims, types=["float"], concrete=places)

    (fix,) = found(lambda sketch: step(sketch, 5), tmp_path)
    assert said([fix]) == [
        (
            "use torch.topk(x, 5) instead of the sort",
            "1 sort per step of 20000 elements of which 5 are read",
        )
    ]
    assert found(lambda sketch: step(sketch, 10_000), tmp_path) == []


def test_tensors_of_lists(tmp_path: Path) -> None:
    """`torch.tensor` looks at the numbers before `empty`, and copies them after it."""

    def step(sketch: Sketch, looks: float = 5_000) -> None:
        matmul(sketch, us=1_000)
        sketch.pause(looks).op("aten::empty", us=2).pause(4_000)
        sketch.op("aten::to", us=2).op("aten::lift_fresh", us=2)

    (fix,) = found(step, tmp_path)
    assert said([fix]) == [
        (
            "make the tensor once, or of a NumPy array (torch.from_numpy)",
            "torch.tensor() of Python's numbers takes 89.9% of the step",
        )
    ]
    orders = [fix.proposal.order for fix in found(lambda s: step(s, 9_000), tmp_path)]
    assert orders[0] == "move this Python out of the step, or vectorize it"  # more than a look


def test_python_comes_at_the_same_place_of_a_cpu_step(tmp_path: Path) -> None:
    places = iter((1, 2, 3))

    def step(sketch: Sketch, at: int) -> None:
        for turn in range(1, 4):
            matmul(sketch, us=200)
            if turn == at:
                sketch.pause(1_000)

    assert found(lambda sketch: step(sketch, next(places)), tmp_path) == []
    (fix,) = found(lambda sketch: step(sketch, 2), tmp_path)
    assert fix.fix == "python_time"


@pytest.mark.parametrize(("then", "goes"), [("aten::bmm", True), ("aten::view", False)])
def test_a_copy_that_the_next_op_does_not_need(then: str, goes: bool, tmp_path: Path) -> None:
    keys, types = [8, 256, 512], ["float", "float"]

    def step(sketch: Sketch) -> None:
        copying = "aten::contiguous > aten::clone > aten::copy_"
        sketch.op(copying, us=2_000, dims=[keys, keys], types=types)
        sketch.events[-3]["args"] = {
            "Input Dims": [keys], "Input type": FLOAT, "Input Strides": [[131_072, 1, 256]]
        }  # fmt: skip
        sketch.op(then, us=1_000, dims=[[8, 16, 256], keys], types=types)

    order = "drop .contiguous() before bmm"
    why = "1 copy per step, and the op behind it takes strides"
    assert said(found(step, tmp_path)) == ([(order, why)] if goes else [])


@pytest.mark.parametrize(
    ("op", "order"), [("conv2d", "one convolution with groups=8"), ("celu", "")]
)
def test_a_convolution_of_each_part(op: str, order: str, tmp_path: Path) -> None:
    """Long ops gain nothing by a batch; convolutions do by groups, however long they take."""

    def step(sketch: Sketch) -> None:
        sketch.op("aten::split", us=60, dims=[[4, 16, 8, 8], [], []])
        split = sketch.events[-1]
        for at in range(8):
            narrow = {"name": "aten::narrow", "ts": sketch.now - 55 + 3 * at, "dur": 2, "args": {}}
            sketch.events.append(split | narrow)
        for _ in range(8):
            dims = [[4, 2, 8, 8], [2, 2, 3, 3]]
            sketch.op(f"aten::{op}", us=200, dims=dims, types=["float", "float"])
        sketch.op("aten::cat", us=20)

    why = "the same op runs 8 times per step, on one slice each"
    assert said(found(step, tmp_path)) == ([(order, why)] if order else [])


@pytest.mark.parametrize(
    ("first", "last", "rounds", "seen"),
    [
        ("aten::rand", "aten::multinomial", 32, True),  # policies of environments
        ("aten::embedding", "aten::argmax", 32, False),  # the next token
        ("aten::rand", "aten::multinomial", 31, False),
    ],
)
def test_rows_of_a_list(first: str, last: str, rounds: int, seen: bool, tmp_path: Path) -> None:
    """Rounds between two gatherings, as an optimizer and a backward pass follow them."""

    def step(sketch: Sketch) -> None:
        for _ in range(4):
            for _ in range(rounds):
                sketch.op(first, us=4, dims=[[6]], types=FLOAT)
                sketch.op("aten::linear", us=20, dims=[[6], [8, 6], [8]], types=FLOAT * 3)
                sketch.op(last, us=10, dims=[[8]], types=FLOAT)
            sketch.op("aten::stack", us=20, dims=[], types=[])
        for _ in range(64):
            sketch.op("aten::add_", us=4, dims=[[6], [6]], types=FLOAT * 2)

    order = "run the samples as one batch (torch.stack)"
    why = "the same 3 ops run 128 times per step, on one row each"
    assert said(found(step, tmp_path)) == ([(order, why)] if seen else [])


@pytest.mark.parametrize(
    ("between", "width", "seen"),
    [
        ("aten::mul", 8, True),
        ("aten::add", 8, False),  # tanh(linear(x) + linear(h))
        ("aten::cat", 8, False),  # linear(cat(x, h))
        ("aten::mul", 6, False),  # h = linear(h)
    ],
)
def test_rows_that_may_pass_a_state_on(
    between: str, width: int, seen: bool, tmp_path: Path
) -> None:
    def step(sketch: Sketch) -> None:
        for _ in range(64):
            sketch.op("aten::linear", us=20, dims=[[6], [width, 6], [width]], types=FLOAT * 3)
            sketch.op(between, us=10, dims=[[width], [width]], types=FLOAT * 2)
            sketch.op("aten::tanh", us=10, dims=[[width]], types=FLOAT)
        sketch.op("aten::stack", us=20, dims=[], types=[])

    assert len(found(step, tmp_path)) == seen


def test_a_cell_written_out_is_no_batch(tmp_path: Path) -> None:
    """ "DO FIRST run all slices in one call": each round needs the state of the one before it."""

    def step(sketch: Sketch, gate: str) -> None:
        for at in range(16):
            place = ["", "0", str(at)]
            sketch.op("aten::select", us=4, dims=[[16, 8, 8], [], []], concrete=place)
            for name in ("linear", "linear", gate, "tanh"):
                sketch.op(f"aten::{name}", us=20, dims=[[8, 8], [8, 8]], types=FLOAT * 2)
        sketch.op("aten::stack", us=20)

    order = "run the whole sequence at once (nn.GRU)"
    why = "the same 5 ops run 16 times per step, on one slice each"
    assert said(found(lambda sketch: step(sketch, "sigmoid"), tmp_path)) == [(order, why)]
    assert found(lambda sketch: step(sketch, "add"), tmp_path) == []
