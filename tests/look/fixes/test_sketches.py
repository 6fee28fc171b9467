"""Each fix on a made-up step where it holds, and on one that only looks like it.

The recordings of tests/frozen show the other fixes. A row is a fix, what draws the step, and what is
proposed: the change, its reason, the time of the step now and then in us. A step that only looks
like it comes right below, and proposes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.base import plugins
from foretrace.look.fixes import fixes, predicted_on_cpu
from foretrace.look.fixes._step import Step
from foretrace.trace import replay
from look.fixes.waiting import DOWN, waits
from look.rules.sketch import ADD, COPY, GELU, GEMM, MUL, Sketch, Work, kernel, memcpy
from opened_traces import open_made

Draw = Callable[[Sketch], object]
BF16, FLOATS = "c10::BFloat16", ["float", "float", "float"]
CONVERT = "aten::to > aten::_to_copy > aten::copy_"
ENGINE = "autograd::engine::evaluate_function: "
READ = "aten::item > aten::_local_scalar_dense"
SQUARE = [[64, 64], [64, 64]]
ODD = "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1"
TF32 = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x256x32_warpgroupsize2x1x1_execute_segment_k"
    "_off_kernel__5x_cublas"
)
Says = tuple[str, str, float, float]  # the change, its reason, us of a step now and then


def told(sketch: Sketch, name: str, **args: Any) -> Sketch:
    """Gives the last op of that name what the profiler writes beside it."""
    event = next(each for each in reversed(sketch.events) if each["name"] == name)
    event.setdefault("args", {}).update({key.replace("_", " "): args[key] for key in args})
    return sketch


def matmul(name: str = GEMM, us: float = 120, width: int = 1024, kind: str = BF16) -> Draw:
    dims = [[8192, width], [width, width]]
    return lambda s: s.op("aten::mm", kernel(name, us), dims=dims, types=[kind] * 2)


def attention(name: str, kind: str) -> Draw:
    path = "aten::scaled_dot_product_attention > aten::_efficient_attention_forward"
    dims = [[8, 2048, 16, 64]] * 3
    return lambda s: s.op(path, kernel(name, 4000), dims=dims, types=[kind] * 3)


def masked_attention(*mask: int) -> Draw:
    flash = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_128x128x128_4x1x1"
    dims = [[2, 16, 4096, 64]] * 3 + [list(mask)]
    path = "aten::_scaled_dot_product_cudnn_attention"
    return lambda s: s.op(path, kernel(COPY, 40), kernel(flash, 1000), dims=dims)


def emptied_cache(again: bool) -> Draw:
    def draw(s: Sketch) -> None:
        if again or s.steps == 2:
            s.host("cuda_runtime", "cudaMalloc", 300)
        s.op("aten::mm", kernel(GEMM, 100)).sync()
        if again or s.steps == 2:
            s.host("cuda_runtime", "cudaFree", 400)

    return draw


def nan_checks(around: str) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(5):
            s.op(f"{around} > MulBackward0 > aten::mul", kernel(ADD, 10), us=30)
            node = s.events[-6]
            while node["name"] != around:
                node = s.events[s.events.index(node) + 1]
            s.op("aten::isnan > aten::ne", kernel(ADD, 5))
            s.op("aten::_is_any_true > aten::any", kernel(ADD, 5))
            waits(s, READ, DOWN)
            node["dur"] = round(s.now - node["ts"] + 1, 3)
            s.pause(2)

    return draw


def slices(advancing: bool) -> Draw:
    def draw(s: Sketch) -> None:
        for at in range(16):
            index = ["", "0", str(at if advancing else 0)]
            s.op("aten::select", us=4, dims=[[16, 128, 512], [], []], concrete=index)
            s.op("aten::mm", kernel(GEMM, 8), us=40, dims=[[128, 512], [512, 512]])
            s.op("aten::gelu", kernel(GELU, 3), us=20, dims=[[128, 512]])
        s.op("aten::stack", kernel(GELU, 9), us=30, dims=[[16, 128, 512]])

    return draw


def masked_rows(s: Sketch) -> None:
    """Both ops find the elements of a mask, wait for their number, and move them."""
    whole, some = [4096, 512], [2048, 512]
    flags = kernel("void at::native::flag_kernel<bool>(bool*)", 3)
    gather = kernel("void at::native::index_elementwise_kernel<128, 4>(int)", 4)
    s.op("aten::clone", kernel(ADD, 5), dims=[whole])
    for path, dims in (("aten::index", [whole, []]), ("aten::index_put_", [whole, [], some, []])):
        first = len(s.events)
        waits(s, f"{path} > aten::nonzero", flags, DOWN, dims=[[4096]], types=["bool"])
        types = [BF16 if each else "" for each in dims]
        told(s, path, Input_Dims=dims, Input_type=types).op("aten::take", gather)
        s.events[first]["dur"] = round(s.now - s.events[first]["ts"], 3)
        if path == "aten::index":
            s.op("aten::mm", kernel(GEMM, 6), dims=[some, [512, 512]])


def nonzero(s: Sketch) -> None:
    gather = kernel("void at::native::index_elementwise_kernel<128, 4>(int)", 4)
    s.op("aten::index", gather, dims=[[4096, 512], []])
    waits(s, "aten::nonzero", kernel("flag_kernel", 3), DOWN, dims=[[4096]])


def images(kind: str, width: int) -> Draw:
    dims = [128, 3, 224, 224]

    def draw(s: Sketch) -> None:
        up = memcpy("Memcpy HtoD (Pinned -> Device)", 350 * width, width * 128 * 3 * 224 * 224)
        s.op(CONVERT, up, dims=[dims, dims], types=[kind, kind])
        s.op("aten::conv2d", kernel(GEMM, 100), dims=[dims, [64, 3, 7, 7]], types=FLOATS[:2])

    return draw


def convolution(channels: int, *after: str) -> Draw:
    layout = (
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, "
        "(cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nchw2nhwc_params_t<float>)"
    )
    conv = (
        "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x256x32_"
        "warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn"
    )
    work = kernel(layout, 8), kernel(conv, 95), kernel(layout, 12)
    dims = [[32, channels, 28, 28], [256, channels, 3, 3]]

    def draw(s: Sketch) -> None:
        s.op("aten::conv2d > aten::cudnn_convolution", *work, dims=dims)
        for op in after:
            s.op(op, kernel(ADD, 10))

    return draw


def recomputed(again: bool) -> Draw:
    node, dims = f"{ENGINE}AddmmBackward0", [[8192, 1024], [1024, 4096]]

    def draw(s: Sketch) -> None:
        number = 7 + 100 * s.steps
        s.op("aten::linear > aten::mm", kernel(GEMM, 90), dims=dims)
        told(s, "aten::linear", Sequence_number=number)
        if again:
            s.op(f"{node} > aten::linear > aten::mm", kernel(GEMM, 90), dims=dims)
            told(s, node, Sequence_number=number, Fwd_thread_id=1)
            told(s, "aten::linear", Sequence_number=number)
        s.op(f"{node} > aten::mm", kernel(GEMM, 90), dims=dims)
        told(s, node, Sequence_number=number, Fwd_thread_id=1)

    return draw


def index_add(rows: int) -> Draw:
    name = "void at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)"
    types = ["float", "Scalar", "long int", "float", "Scalar"]
    dims = [[rows, 512], [], [100_000], [100_000, 512], []]
    given = {"dims": dims, "types": types, "concrete": ["", "0", "", "", "1"]}
    return lambda s: s.op("aten::index_add_", kernel(name, 400), **given)


def copied_heads(then: str) -> Draw:
    heads, strides = [8, 16, 512, 64], [524_288, 64, 1024, 1]

    def draw(s: Sketch) -> None:
        s.op("aten::contiguous", kernel(COPY, 30), dims=[heads], strides=[strides])
        s.op(then, kernel("flash", 100), dims=[heads, heads, heads])

    return draw


def chain(s: Sketch) -> None:
    for name, function in (("gelu", GELU), ("mul", MUL), ("add", ADD), ("mul", MUL)):
        s.op(f"aten::{name}", kernel(function, 100), dims=[[8192, 8192]] * (1 + (name != "gelu")))


def compiled_chain(s: Sketch) -> None:
    chain(s.host("cpu_op", "Torch-Compiled Region: 0/0", 20))


def small_matmuls(s: Sketch) -> None:
    for _ in range(40):
        s.op("aten::mm", kernel(GEMM, 2), us=25, dims=SQUARE)


def replayed(s: Sketch) -> None:
    small_matmuls(s)
    s.graph()


def loader(us: float) -> Draw:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    work = kernel(GEMM, 500)
    return lambda s: s.host("user_annotation", name, us).op("aten::mm", work, us=600)


def embedding_gradient(rows: int) -> Draw:
    fill = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
        "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"
    )
    path, kinds = "aten::embedding_dense_backward", ["float", "long int", *["Scalar"] * 3]

    def draw(s: Sketch) -> None:
        dims, types = [[1_000_000, 128], []], ["float", "Scalar"]
        s.op(f"{path} > aten::zero_ > aten::fill_", kernel(fill, 200), dims=dims, types=types)
        told(s, path, Input_Dims=[[rows, 128], [rows], [], [], []], Input_type=kinds)
        told(s, path, Concrete_Inputs=["", "", "1000000", "-1", "False"])

    return draw


def slow_add(us: float, kind: str = BF16) -> Draw:
    name, types = ADD.replace("c10::BFloat16", kind), [kind, kind, "double"]
    dims: list[list[int]] = [[4096, 4096], [4096, 4096], []]
    return lambda s: s.op("aten::add", kernel(name, us), dims=dims, types=types)


def averages(shapes: int) -> Draw:
    def draw(s: Sketch) -> None:
        s.op("aten::mm", kernel(GEMM, 50), dims=SQUARE)
        for place in range(48):
            size = [64, 64 << place % shapes]
            s.op("aten::lerp_", kernel(ADD, 2), us=20, dims=[size, size])

    return draw


def sorted_rows(end: int) -> Draw:
    def draw(s: Sketch) -> None:
        dims = [[64, 32_000], [], []]
        s.op("aten::sort", kernel(COPY, 600), dims=dims, concrete=["", "-1", "True"])
        s.op("aten::slice", dims=[*dims, [], []], concrete=["", "1", "0", str(end), "1"])

    return draw


def written_out(words: str) -> Draw:
    """`mul:s` takes a smaller tensor too, `mul:f` another whole one, `mul~` a small one alone."""
    full, small = [8192, 1024], [8192, 1]
    kinds = {"s": [full, small], "f": [full, full], "~": [small], "": [full]}

    def draw(s: Sketch) -> None:
        s.op("aten::mm", kernel("gemm", 50), dims=[full, [1024, 1024]])
        for word in words.split():
            name, _, kind = word.replace("~", ":~").partition(":")
            s.op(f"aten::{name}", kernel(ADD, 2 if kind == "~" else 20), dims=kinds[kind])
        s.op("aten::mm", kernel("gemm", 50), dims=[full, [1024, 1024]])

    return draw


def optimizer(name: str, *ops: str) -> Draw:
    def draw(s: Sketch) -> None:
        s.op("aten::mm", kernel("gemm", 100)).region(f"Optimizer.step#{name}.step")
        for at in range(12):
            s.op(ops[at % len(ops)], kernel(ADD, 50), us=40)

    return draw


def scaled(s: Sketch) -> None:
    s.op("aten::mm", kernel(GEMM, 300)).op("aten::reciprocal", kernel(ADD, 2)).pause(200)
    s.op("aten::_amp_foreach_non_finite_check_and_unscale_", kernel(ADD, 50))
    s.sync("cudaStreamSynchronize", inside="aten::item")
    s.op("aten::_fused_adamw_", kernel("fused_adam", 100))
    s.op("aten::_amp_update_scale_", kernel(ADD, 2))


def loss_read(s: Sketch) -> None:
    s.op("aten::mm", kernel(GEMM, 300)).sync("cudaStreamSynchronize", inside="aten::item")


def grouped(repeat: int) -> Draw:
    inner = "aten::_scaled_dot_product_cudnn_attention"
    name = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
    whole, part = [1048576 * 4, 1048576, 131072, 64, 1], [524288, 131072, repeat, 64, 1]
    heads, shape = [[8, 32, 2048, 64]] * 3, [[8, 4, 8, 2048, 64]] * 2

    def draw(s: Sketch) -> None:
        for _ in range(2):
            path = "aten::repeat_interleave > aten::copy_"
            s.op(path, kernel(COPY, 70), dims=shape, strides=[whole, part])
        s.op(f"aten::scaled_dot_product_attention > {inner}", kernel(name, 340), dims=heads)
        outer = "aten::scaled_dot_product_attention"
        told(s, outer, Input_Dims=heads, Input_type=[BF16] * 3)

    return draw


def forward_nodes(backward: bool) -> Draw:
    def draw(s: Sketch) -> None:
        for place in range(12):
            s.op("aten::mm", kernel(GEMM, 5), us=30, dims=[[1024, 1024]] * 2)
            told(s, "aten::mm", Sequence_number=100 * s.steps + place)
        if backward:
            s.op(f"{ENGINE}MmBackward0 > MmBackward0", kernel(GEMM, 5))
            for name in (f"{ENGINE}MmBackward0", "MmBackward0"):
                told(s, name, Sequence_number=100 * s.steps, Fwd_thread_id=1)

    return draw


def casts(shape: list[int]) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(6):
            s.op(CONVERT, kernel(COPY, 5), us=30, dims=[shape, shape], types=[BF16, "float"])
            s.op("aten::linear", kernel(GEMM, 8), us=40, dims=[[512, 1024], [4096, 1024]])

    return draw


def uploaded(shape: list[int]) -> Draw:
    up = memcpy("Memcpy HtoD (Pinned -> Device)", 600, 2 * shape[0] * shape[1])
    dims = [[256, 4096], [4096, 4096]]

    def draw(s: Sketch) -> None:
        s.op(CONVERT, up, dims=[shape, shape])
        s.op("aten::matmul > aten::mm", kernel(GEMM, 20), dims=dims).op("aten::matmul", dims=dims)

    return draw


def one_hot(left: list[int], right: list[int]) -> Draw:
    def draw(s: Sketch) -> None:
        types, place = ["long int", "Scalar"], ["", "50000"]
        s.op("aten::one_hot", kernel(COPY, 90), dims=[[2048], []], types=types, concrete=place)
        s.op("aten::add", kernel(ADD, 3), dims=[[64], [64], []])
        s.op("aten::to", kernel(COPY, 300), dims=[[2048, 50000]], types=["long int"])
        s.op("aten::matmul", kernel(GEMM, 170), dims=[left, right])

    return draw


def groups(count: int) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(40):
            s.op("torch::autograd::AccumulateGrad", us=5)
        s.region("Optimizer.step#AdamW.step")
        for _ in range(count):
            s.op("aten::_foreach_add_", kernel(ADD, 2), us=40)
            s.op("aten::_fused_adamw_", kernel(ADD, 3), us=40)

    return draw


def paused(us: float) -> Draw:
    def draw(s: Sketch) -> None:
        s.op("aten::mm", kernel(GEMM, 500), us=600).op("aten::relu", kernel(GEMM, 10)).pause(us)

    return draw


def argmax(*work: Work) -> Draw:
    shape = [2048, 32_000]

    def draw(s: Sketch) -> None:
        s.op("aten::mm", kernel(GEMM, 200), dims=[[2048, 1024], [1024, 32_000]])
        s.op(CONVERT, kernel(COPY, 190), dims=[shape, shape], types=["float", BF16])
        down = memcpy("Memcpy DtoH (Device -> Pageable)", 20_000, 4 * 2048 * 32_000)
        s.op(CONVERT, down, dims=[shape, shape], types=FLOATS[:2]).sync("cudaStreamSynchronize")
        us, types = (10 if work else 30_000), ["float", "Scalar"]
        s.op("aten::argmax", *work, us=us, dims=[shape, []], types=types)

    return draw


def passes(graphs: int) -> Draw:
    """Two backward passes: of the same graph, or of two."""

    def draw(s: Sketch) -> None:
        first = 0
        for turn in range(2):
            if turn < graphs:
                first = len(s.events)
                for layer in range(6):
                    s.op("aten::mm", kernel(GEMM, 50))
                    told(s, "aten::mm", Sequence_number=first + layer, Fwd_thread_id=0)
            for layer in reversed(range(6)):
                node = f"{ENGINE}MmBackward0"
                s.op(node, kernel(GEMM, 100))
                told(s, node, Sequence_number=first + layer, Fwd_thread_id=1)
                s.op(f"{ENGINE}torch::autograd::AccumulateGrad", us=5)

    return draw


def head(*last: str) -> Draw:
    def draw(s: Sketch) -> None:
        dims: list[list[int]] = [[8, 96, 128], [16_000, 128], []]
        s.op("aten::linear", kernel(GEMM, 960), us=9_600, dims=dims, types=["float", "float", ""])
        made, types = [[8, 96, 16_000], [], []], ["float", "Scalar", "Scalar"]
        s.op("aten::select", us=10, dims=made, types=types, concrete=["", *last])
        s.op("aten::softmax", kernel(ADD, 5), us=100, dims=[[8, 16_000]], types=["float"])

    return draw


def constants(count: int) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(count):
            s.op("aten::mm", kernel(GEMM, 20), us=30)
            for name in ("aten::empty", "aten::to", "aten::lift_fresh"):
                s.op(name, us=4)
            waits(s, CONVERT, memcpy("Memcpy HtoD (Pageable -> Device)", 2, 512))

    return draw


def softmax(us: float) -> Draw:
    name = (
        "void at::native::(anonymous namespace)::cunn_SpatialSoftMaxForward<float, float, float, "
        "int, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)"
    )
    types, concrete = ["float", "Scalar", "Scalar"], ["", "0", "False"]
    given = {"dims": [[8192, 4096], [], []], "types": types, "strides": [[1, 8192], [], []]}
    return lambda s: s.op("aten::_softmax", kernel(name, us), concrete=concrete, **given)


def synchronized(s: Sketch) -> None:
    for _ in range(4):
        s.op("aten::mm", kernel(GEMM, 60), us=50).sync()


def loss_reads(s: Sketch) -> None:
    s.op("aten::mm", kernel(GEMM, 300), us=200)
    waits(s, READ, DOWN)


# On a CPU the ops themselves are the work.


def linear(s: Sketch, us: float = 4_000, kind: str = "float") -> None:
    dims = [[512], [512, 512], [512, 512]]
    s.op("aten::linear > aten::addmm", us=us, dims=dims, types=[kind] * 3)


def cpu_loader(us: float) -> Draw:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return lambda s: linear(s.host("user_annotation", name, us), 200)


def cpu_convolution(*strides: int) -> Draw:
    dims, held = [[8, 64, 32, 32], [64, 64, 3, 3]], [list(strides), [576, 9, 3, 1]]
    given = {"dims": dims, "types": FLOATS[:2], "strides": held}
    return lambda s: s.op("aten::mkldnn_convolution", us=5_000, **given)


def samples(rows: int) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(64):
            s.op("aten::addmm", us=10, dims=[[10], [rows, 64], [64, 10]], types=FLOATS)
        s.op("aten::stack", us=20)

    return draw


def written_cell(gate: str) -> Draw:
    """Each round needs the state of the one before it."""

    def draw(s: Sketch) -> None:
        for at in range(16):
            s.op("aten::select", us=4, dims=[[16, 8, 8], [], []], concrete=["", "0", str(at)])
            for name in ("linear", "linear", gate, "tanh"):
                s.op(f"aten::{name}", us=20, dims=[[8, 8], [8, 8]], types=FLOATS[:2])
        s.op("aten::stack", us=20)

    return draw


def list_rows(width: int) -> Draw:
    def draw(s: Sketch) -> None:
        for _ in range(64):
            s.op("aten::linear", us=20, dims=[[6], [width, 6], [width]], types=FLOATS)
            s.op("aten::mul", us=10, dims=[[width], [width]], types=FLOATS[:2])
            s.op("aten::tanh", us=10, dims=[[width]], types=["float"])
        s.op("aten::stack", us=20, dims=[], types=[])

    return draw


def elements(count: int) -> Draw:
    def draw(s: Sketch) -> None:
        linear(s, 200)
        for at in range(count):
            s.op("aten::select", us=4, dims=[[512], [], []], concrete=["", "0", str(at)])
            s.op(READ, us=4, dims=[[]], types=["float"])

    return draw


def norms(us: float) -> Draw:
    def draw(s: Sketch) -> None:
        linear(s, 200)
        for _ in range(80):
            s.op("aten::abs", us=us, dims=[[64, 64]], types=["float"])
            s.op("aten::linalg_vector_norm", us=us, dims=[[64, 64]], types=["float"])
            s.op(READ, us=4, dims=[[]], types=["float"])

    return draw


def printed(s: Sketch) -> None:
    for name in ("isfinite", "ne", "__and__", "masked_select", "abs", "min", "max", "unbind"):
        s.op(f"aten::{name}", us=20, dims=[[64, 64]], types=["float"])
    for _ in range(40):
        s.op(READ, us=4, dims=[[]], types=["float"])


def cpu_attention(between: str, columns: int = 64) -> Draw:
    scores, pair = [8, 64, 64], FLOATS[:2]

    def draw(s: Sketch) -> None:
        s.op("aten::matmul > aten::bmm", us=1_000, dims=[[8, 64, 32], [8, 32, 64]], types=pair)
        s.op(between, us=1_000, dims=[scores], types=["float"])
        path, dims = "aten::softmax > aten::_softmax", [[8, 64, columns]]
        s.op(path, us=1_000, dims=dims, types=["float"])
        s.op("aten::matmul > aten::bmm", us=1_000, dims=[scores, [8, 64, 32]], types=pair)

    return draw


def grown(rows: int) -> Draw:
    def draw(s: Sketch) -> None:
        for at in range(1, 11):
            dims = [[[at * rows or 16, 256], [16, 256]], []]
            types, strides = ["TensorList", "Scalar"], [[[256, 1], [256, 1]], []]
            s.op("aten::cat", us=100 * at, dims=dims, types=types, strides=strides)

    return draw


def token(queries: int, keys: int, growing: bool) -> Draw:
    def draw(s: Sketch) -> None:
        more = s.steps if growing else 0
        made, held = queries + more * (queries > 1), keys + more
        s.op("aten::linear > aten::addmm", us=500, dims=[[2, made, 64], *SQUARE], types=FLOATS)
        dims = [[2, 4, made, 16], [2, 4, held, 16], [2, 4, held, 16]]
        s.op("aten::scaled_dot_product_attention", us=100, dims=dims, types=FLOATS)

    return draw


def summed(*strides: list[int], over: str = "[-1]") -> Draw:
    wide, kinds = [384, 384, 64], ["float", "ScalarList", "Scalar", ""]

    def draw(s: Sketch) -> None:
        s.op("aten::mul", us=3_000, dims=[wide, wide], types=FLOATS[:2], strides=list(strides))
        concrete = ["", over, "False", ""]
        s.op("aten::sum", us=1_000, dims=[wide, [], [], []], types=kinds, concrete=concrete)

    return draw


def again(rows: int) -> Draw:
    """A training pass, and one more forward pass."""

    def draw(s: Sketch) -> None:
        number = 100 * s.steps
        for turn, size in enumerate((8, rows)):
            for at, layer in enumerate(("conv2d", "linear")):
                s.op(f"aten::{layer}", us=200, dims=[[size, 16], [16, 16]], types=FLOATS[:2])
                told(s, f"aten::{layer}", Sequence_number=number + 10 * turn + at)
            if not turn:
                for at, node in ((1, "AddmmBackward0"), (0, "ConvolutionBackward0")):
                    dims = [[8, 16], [16, 16]]
                    s.op(f"{node} > aten::mm", us=200, dims=dims, types=FLOATS[:2])
                    told(s, node, Sequence_number=number + at, Fwd_thread_id=1)

    return draw


def neighbours(stride: int) -> Draw:
    def draw(s: Sketch) -> None:
        linear(s, 200)
        for node in range(32):
            types, value = ["long int", "Scalar"], ["", str(stride * node)]
            s.op("aten::eq", us=20, dims=[[2400], []], types=types, concrete=value)
            s.op("aten::index", us=20, dims=[[2400], []], types=["long int", ""])
            s.op("aten::mean", us=20, dims=[[3 + node % 5, 64]], types=["float"])
        s.op("aten::stack", us=20)

    return draw


def proposed(name: str, draw: Draw, folder: Path) -> list[Says]:
    """What one fix proposes for the second of three such steps."""
    (fix,) = (each for each in fixes() if each.name == name)
    trace = open_made(stepping(draw), folder)
    step = Step(trace, replay.graph_of(trace, trace.spans.steps[1], True), repeats=3)
    if [need for need in fix.needs if not trace.has(need)]:
        return []
    now = replay.run(step.graph)
    return [
        (
            each.order,
            each.why,
            round(now / 1e3, 1),
            round(replay.run(step.graph, each.change) / 1e3, 1),
        )
        for each in fix.find(step)
    ]


def proposed_on_cpu(name: str, draw: Draw, folder: Path) -> list[Says]:
    document = stepping(draw).document()
    del document["deviceProperties"]
    (folder / "trace.json").write_text(json.dumps(document))
    step = predicted_on_cpu(ft.open(folder / "trace.json", cache=False))
    if step is None:
        return []
    return [
        (
            each.proposal.order,
            each.proposal.why,
            round(step.now_ns / 1e3, 1),
            round(each.ns / 1e3, 1),
        )
        for each in step.fixes
        if each.fix == name
    ]


def stepping(draw: Draw) -> Sketch:
    """Three steps that are drawn with the same function."""
    sketch = Sketch()
    for _ in range(3):
        draw(sketch.step())
    return sketch


ON_GPU: list[tuple[str, Draw, Says | None]] = [
    ("aligned_sizes", matmul(f"void cutlass::Kernel2<{ODD}>({ODD}::Params)", width=1021), ("pad 1021 to 1024, a multiple of 64", "1 matmul per step with narrow loads: 1021 is not a multiple of 8", 121.0, 26.0)),
    ("aligned_sizes", matmul(), None),
    ("allocator", emptied_cache(True), ("remove torch.cuda.empty_cache() from the step", "1 cudaMalloc and 1 cudaFree per step", 812.0, 101.0)),
    ("allocator", emptied_cache(False), None),
    ("anomaly_mode", nan_checks(f"{ENGINE}MulBackward0"), ("remove torch.autograd.detect_anomaly()", "5 checks for NaN in the backward pass, 5 waits per step", 330.0, 155.0)),
    ("anomaly_mode", nan_checks("my::op"), None),
    ("attention_dtype", attention("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "float"), ("give scaled_dot_product_attention bf16 (q.bfloat16())", "1 attention per step in float32: no tensor cores", 4001.0, 388.9)),
    ("attention_dtype", attention("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", BF16), None),
    ("autocast", matmul(TF32, 250, kind="float"), ("run the model in bf16 (model.bfloat16())", "1 of 1 matmul per step in float32 (TF32), not in bf16", 251.0, 26.2)),
    ("autocast", matmul("ampere_sgemm_128x64_tn", 250, kind="float"), None),
    ("batched_loop", slices(True), ("run all slices in one call, along a batch dimension", "the same 3 ops run 16 times per step, on one slice each", 1054.0, 60.0)),
    ("batched_loop", slices(False), None),
    ("boolean_mask", masked_rows, ("write the mask with torch.where(mask, new, x)", "2 waits per step for nonzero(), which sizes x[mask]", 70.7, 22.8)),
    ("boolean_mask", nonzero, None),
    ("bytes_not_floats", images("float", 4), ("copy uint8 images, convert on the GPU (x.float().div(255))", "each step copies 77.1 MB of f32 images, [128, 3, 224, 224]", 1500.5, 573.2)),
    ("bytes_not_floats", images("unsigned char", 1), None),
    ("causal_mask", masked_attention(4096, 4096), ("pass is_causal=True to SDPA instead of attn_mask", "1 attention per step read a mask of 4096 x 4096", 1040.5, 195.4)),
    ("causal_mask", masked_attention(2, 1, 4096, 4096), None),
    ("channels_last", convolution(256), ("use memory_format=torch.channels_last for model and input", "2 kernels per step change NCHW to NHWC or back for cuDNN", 115.5, 95.0)),
    ("channels_last", convolution(256, "aten::group_norm"), None),
    ("checkpoint", recomputed(True), ("drop torch.utils.checkpoint, or keep it for fewer blocks", "1 layer of the forward pass run again in the backward pass", 270.5, 180.5)),
    ("checkpoint", recomputed(False), None),
    ("colliding_atomics", index_add(8), ("add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x", "1 index_add_ per step: atomics of 100000 rows collide in 8", 401.0, 111.1)),
    ("colliding_atomics", index_add(50_000), None),
    ("compile", chain, ("torch.compile(model)", "4 kernels can fuse into 1; 4 launches per step", 400.5, 114.0)),
    ("compile", compiled_chain, None),
    ("contiguous", copied_heads("aten::scaled_dot_product_attention"), ("drop .contiguous() before scaled_dot_product_attention", "1 copy per step, and the op behind it takes strides", 130.5, 100.0)),
    ("contiguous", copied_heads("aten::matmul"), None),
    ("cuda_graph", small_matmuls, ("CUDA graph (torch.cuda.make_graphed_callables)", "40 launches per step for 80.0 us of GPU work", 1000.0, 188.1)),
    ("cuda_graph", replayed, None),
    ("data_loader", loader(4_000), ("DataLoader(num_workers=8, pin_memory=True)", "the process itself makes 1 batch in 87.0% of the step", 4600.0, 650.0)),
    ("data_loader", loader(40), None),
    ("dense_gradients", embedding_gradient(4096), ("use nn.Embedding(sparse=True) with SparseAdam", "a gradient of 512.0 MB is filled, of which 0.4% are not zero", 201.0, 10.0)),
    ("dense_gradients", embedding_gradient(400_000), None),
    ("far_below_roof", slow_add(2000), ("write add with another op or layout", "1 kernel of aten::add per step at 2.1% of the card's roof", 2001.0, 1001.0)),
    ("far_below_roof", slow_add(150), None),
    ("float64", slow_add(100, "double"), ("make the tensors float32 (x.float(), dtype=torch.float32)", "1 kernel per step on float64 tensors", 101.0, 51.0)),
    ("float64", matmul("volta_dgemm_128x64_nn", 9000, kind="double"), ("make the tensors float32 (x.float(), dtype=torch.float32)", "1 kernel per step on float64 tensors", 9001.0, 345.4)),
    ("float64", slow_add(100, "float"), None),
    ("foreach_loop", averages(4), ("torch._foreach_lerp_ over all tensors, not a loop", "48 calls of lerp_ on one tensor each", 970.0, 90.0)),
    ("foreach_loop", averages(1), None),
    ("full_sort", sorted_rows(50), ("use torch.topk(x, 50) instead of the sort", "1 sort per step of 32000 elements of which 50 are read", 601.0, 22.0)),
    ("full_sort", sorted_rows(30_000), None),
    ("fused_ops", written_out("mean var sub:s add~ rsqrt~ mul:s mul:s add:s"), ("call F.layer_norm/batch_norm instead of 8 ops", "mean, var, sub, ... written out once per step", 224.5, 123.9)),
    ("fused_ops", written_out("to pow mean add~ rsqrt~ mul:s to mul:s"), ("call F.rms_norm instead of 8 ops", "pow, mean, add, ... written out once per step", 224.5, 115.0)),
    ("fused_ops", written_out("mul pow mul add:f mul tanh add mul:f"), ('call F.gelu(approximate="tanh") instead of 8 ops', "mul, pow, mul, ... written out once per step", 260.5, 113.2)),
    ("fused_ops", written_out("amax sub:s exp sum div:s"), ("call torch.softmax instead of 5 ops", "amax, sub, exp, ... written out once per step", 200.5, 115.0)),
    ("fused_ops", written_out("to softmax log"), ("call F.log_softmax instead of 2 ops", "softmax, log written out once per step", 160.5, 135.0)),
    ("fused_ops", written_out("rand_like lt mul:f div"), ("call F.dropout instead of 4 ops", "rand_like, lt, mul, ... written out once per step", 180.5, 113.2)),
    ("fused_ops", written_out("mean sub:s pow mean"), None),
    ("fused_ops", written_out("sigmoid mul:f"), None),
    ("fused_optimizer", optimizer("AdamW", "aten::_foreach_mul_", "aten::_foreach_add_"), ("torch.optim.AdamW(..., fused=True)", "AdamW launches 12 kernels per step", 700.5, 490.0)),
    ("fused_optimizer", optimizer("RMSprop", "aten::_foreach_mul_", "aten::_foreach_add_"), ("torch.compile(optimizer.step)", "RMSprop launches 12 kernels per step", 700.5, 490.0)),
    ("fused_optimizer", optimizer("Lion", "aten::_foreach_mul_", "aten::_foreach_add_"), None),
    ("grad_scaler", scaled, ("autocast in bfloat16, without a GradScaler", "each step unscales gradients, looks for infinities and waits for the answer", 466.5, 403.0)),
    ("grad_scaler", loss_read, None),
    ("grouped_queries", grouped(0), ("pass enable_gqa=True to SDPA instead of repeating k and v", "2 copies per step of keys and values repeated for groups of queries", 480.5, 340.0)),
    ("grouped_queries", grouped(64), None),
    ("inference_mode", forward_nodes(False), ("run inference under torch.no_grad() or inference_mode()", "12 ops per step make autograd nodes, and no backward pass follows", 360.0, 291.4)),
    ("inference_mode", forward_nodes(True), None),
    ("inference_mode", casts([4096, 1024]), ("load the weights in 16 bit: model.to(torch.bfloat16)", "6 conversions of float32 weights per step", 420.0, 240.0)),
    ("inference_mode", casts([512, 1024]), None),
    ("keep_on_gpu", uploaded([4096, 4096]), ("keep the weights on the GPU (model.to('cuda') once)", "each step copies 1 weight from the host (33.6 MB)", 620.5, 20.0)),
    ("keep_on_gpu", uploaded([256, 4096]), None),
    ("one_hot_matmul", one_hot([2048, 50000], [50000, 768]), ("index the table: F.embedding(index, table)", "1 matmul per step with one-hot rows of 50000 columns", 563.5, 20.0)),
    ("one_hot_matmul", one_hot([50000, 2048], [2048, 768]), None),
    ("parameter_groups", groups(40), ("give AdamW two parameter groups: decay and no decay", "optimizer.step() runs 40 groups for 40 parameters", 3400.0, 785.7)),
    ("parameter_groups", groups(8), None),
    ("python_time", paused(4_000), ("move this Python out of the step, or vectorize it", "no op runs in 86.8% of the step (1 stretch)", 4610.0, 610.0)),
    ("python_time", paused(300), None),
    ("reduce_on_gpu", argmax(), ("call argmax() on the GPU, before .cpu()", "argmax runs on the CPU after a copy of 262.1 MB to the host", 50402.0, 310.1)),
    ("reduce_on_gpu", argmax(kernel("argmax", 50)), None),
    ("repeated_backward", passes(1), ("one backward pass: (loss1 + loss2).backward()", "2 backward passes per step run 12 nodes again", 1500.5, 900.5)),
    ("repeated_backward", passes(2), None),
    ("scalar_reads", loss_reads, ("keep it on the GPU (.detach()), read it every N steps", "1 wait per step for .item()", 409.0, 300.5)),
    ("sliced_linear", head("1", "-1"), ("slice before the linear layer, as in head(x[:, -1:])", "linear to 16000 features at 96 positions, of which the step reads 1", 9710.0, 9710.0)),
    ("sliced_linear", head("2", "0"), None),
    ("small_copies", constants(6), ("make this tensor once on the GPU, before the loop", "6 copies of 512 B from the host per step, 6 waits", 336.0, 180.0)),
    ("small_copies", constants(2), None),
    ("strided_softmax", softmax(9000), ("take softmax over the last dimension, then transpose", "1 softmax per step over a dimension with strides", 9001.0, 141.2)),
    ("strided_softmax", softmax(150), None),
    ("synchronize", synchronized, ("delete torch.cuda.synchronize() from the step", "4 calls of cudaDeviceSynchronize per step", 368.0, 244.0)),
    ("synchronize", loss_read, None),
]  # fmt: skip
ON_CPU: list[tuple[str, Draw, Says | None]] = [
    ("threads", linear, ("use more threads (OMP_NUM_THREADS, torch.set_num_threads)", "large matmuls run at 67 GFLOP/s, what one core gives", 3998.2, 1999.2)),
    ("threads", lambda s: linear(s, 200), None),
    ("float64", lambda s: linear(s, kind="double"), ("compute in float32 (model.float(), x.float())", "1 op of the step compute in float64", 3998.2, 1999.2)),
    ("channels_last", cpu_convolution(65_536, 1024, 32, 1), ("model and input .to(memory_format=torch.channels_last)", "1 convolution of tensors in NCHW", 4999.4, 3999.5)),
    ("channels_last", cpu_convolution(65_536, 1, 2048, 64), None),
    ("batched_loop", samples(1), ("run the samples as one batch (torch.stack)", "the same op runs 64 times per step, on one row each", 582.6, 36.4)),
    ("batched_loop", samples(32), None),
    ("batched_loop", written_cell("sigmoid"), ("run the whole sequence at once (nn.GRU)", "the same 5 ops run 16 times per step, on one slice each", 1267.4, 823.8)),
    ("batched_loop", written_cell("add"), None),
    ("batched_loop", list_rows(8), ("run the samples as one batch (torch.stack)", "the same 3 ops run 64 times per step, on one row each", 2349.0, 146.8)),
    ("batched_loop", list_rows(6), None),
    ("data_loader", cpu_loader(3_000), ("DataLoader(num_workers=4)", "the step makes its batch itself (num_workers=0)", 3198.2, 949.5)),
    ("scalar_reads", elements(100), ("use tensor ops instead of this loop, and read their result once", "100 reads of numbers per step, one by one (.item(), float(), if)", 638.2, 231.8)),
    ("scalar_reads", elements(63), None),
    ("scalar_reads", norms(20), ("compute and read these numbers every N steps", "80 numbers per step computed and read alone (linalg_vector_norm)", 3334.2, 838.9)),
    ("scalar_reads", norms(300), None),
    ("printed_tensors", printed, ("print every N steps", "text of 1 tensor per step (print, f-string, log): 40 values read alone", 215.0, 21.5)),
    ("fused_attention", cpu_attention("aten::triu"), ("call F.scaled_dot_product_attention(q, k, v, is_causal=True)", "matmul, softmax and matmul write out 1 score matrix", 3992.2, 1796.5)),
    ("fused_attention", cpu_attention("aten::bernoulli_"), None),
    ("fused_attention", cpu_attention("aten::div", 10), None),
    ("grown_by_cat", grown(16), ("append the parts to a list, and torch.cat(parts) once", "10 torch.cat per step, and each copies what the one before it made", 5488.6, 997.9)),
    ("grown_by_cat", grown(0), None),
    ("kv_cache", token(40, 40, True), ("keep the keys and values of earlier tokens (a KV cache)", "all 43 tokens are computed again for each new one", 597.0, 72.4)),
    ("kv_cache", token(40, 40, False), None),
    ("kv_cache", token(1, 40, True), None),
    ("summed_products", summed([64, 0, 1], [0, 64, 1]), ("a matmul instead of mul and sum: a @ b.T or torch.einsum", "1 product of shape [384, 384, 64] per step, summed right after", 3998.2, 399.8)),
    ("summed_products", summed([24_576, 64, 1], [24_576, 64, 1]), None),
    ("summed_products", summed([64, 0, 1], [0, 64, 1], over="[0]"), None),
    ("unused_forward", again(8), ("reuse the outputs of the training pass, or run this under torch.no_grad()", "1 more forward pass per step that no backward pass uses", 1191.0, 833.7)),
    ("unused_forward", again(64), None),
    ("value_masks", neighbours(1), ("group by value in one op (index_add_, scatter_reduce, bincount)", "32 masks per step (x == 0, x == 1, ...), each of 2,400 elements", 2021.8, 484.2)),
    ("value_masks", neighbours(0), None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "draw", "says"), ON_GPU, ids=[row[0] for row in ON_GPU])
def test_on_a_gpu(name: str, draw: Draw, says: Says | None, tmp_path: Path) -> None:
    assert proposed(name, draw, tmp_path) == ([] if says is None else [says])


@pytest.mark.parametrize(("name", "draw", "says"), ON_CPU, ids=[row[0] for row in ON_CPU])
def test_on_a_cpu(name: str, draw: Draw, says: Says | None, tmp_path: Path) -> None:
    assert proposed_on_cpu(name, draw, tmp_path) == ([] if says is None else [says])


def test_every_fix_has_a_manual_of_its_own() -> None:
    manuals = [plugins.manual(fix.find) for fix in fixes()]
    assert all(len(manual) > 1 for manual in manuals)
    assert len({manual[0] for manual in manuals}) == len(manuals)
