"""Groups of made-up launches: what makes a pattern, and what only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from look.rules.sketch import ADD, COPY, GEMM, MUL, Sketch, kernel, memcpy
from opened_traces import open_made

X, ROW = [4, 512, 768], [4, 512, 1]
HEADS, HALF = [4, 12, 512, 64], [4, 12, 512, 32]
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
    "false, false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)
REDUCE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
    "float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, "
    "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>)"
)
# op, then the kernel that it launches where it is not a plain pointwise one
KERNELS = {"mean": REDUCE, "mm": GEMM, "bmm": GEMM, "addmm": GEMM, "softmax": SOFTMAX}
BF16, F32 = "c10::BFloat16", "float"


def add_op(sketch: Sketch, word: str, dims: list[list[int]]) -> Sketch:
    if word == "cast":
        path = "aten::to > aten::_to_copy > aten::copy_"
        return sketch.op(path, kernel(COPY, 2), dims=[X, X], types=[F32, BF16])
    return sketch.op(f"aten::{word}", kernel(KERNELS.get(word, MUL), 2), dims=dims)


def found(words: str, folder: Path, dims: list[list[int]] | None = None) -> list[str]:
    """The groups of one kernel per word, in order of launch; all ops have the same sizes."""
    sketch = Sketch().step()
    for word in words.split():
        add_op(sketch, word, dims or [X, X])
    return named(sketch, folder)


def named(sketch: Sketch, folder: Path) -> list[str]:
    trace = open_made(sketch, folder)
    text = trace.work_groups
    return [str(text[row]) for row in trace.gpu.launch_order]


@pytest.mark.parametrize(
    "words",
    [
        "cast pow mean add rsqrt mul cast mul",  # Llama
        "cast pow mean add rsqrt mul add mul cast",  # Gemma adds 1 to its weight
        "pow mean add rsqrt mul mul",
        "pow mean add sqrt div",
    ],
)
def test_rms_norm_by_hand(words: str, tmp_path: Path) -> None:
    assert set(found(words, tmp_path)) == {"RMSNorm"}


def test_rope(tmp_path: Path) -> None:
    sketch = Sketch().step()
    for word, dims in (
        ("mul", [HEADS, [1, 1, 512, 64]]),
        ("neg", [HALF]),
        ("cat", [[HALF, HALF]]),
        ("mul", [HEADS, [1, 1, 512, 64]]),
        ("add", [HEADS, HEADS]),
    ):
        add_op(sketch, word, dims)
    assert named(sketch, tmp_path) == ["RoPE"] * 5


# [2048, 768] to 3072 columns, and to twice as many
UP, BOTH = [[2048, 768], [768, 3072]], [[2048, 768], [768, 6144]]
WIDE, SCALAR = [4, 512, 3072], []


def gated(folder: Path, *ops: tuple[str, list[list[int]]]) -> list[str]:
    sketch = Sketch().step()
    for word, dims in ops:
        add_op(sketch, word, dims)
    return named(sketch, folder)


@pytest.mark.parametrize(("word", "group"), [("silu", "SwiGLU"), ("gelu", "GeGLU")])
def test_a_gate_is_a_second_tensor_that_a_matmul_made(
    word: str, group: str, tmp_path: Path
) -> None:
    act, mul = (word, [WIDE]), ("mul", [WIDE, WIDE])
    found = gated(tmp_path, ("mm", UP), act, ("mm", UP), mul, ("mm", UP))
    assert found == ["GEMM", group, "GEMM", group, "GEMM"]
    assert gated(tmp_path, ("mm", UP), ("mm", UP), act, mul)[2:] == [group, group]
    assert gated(tmp_path, ("mm", BOTH), act, mul)[1:] == [group, group]  # one matmul for both


@pytest.mark.parametrize(("word", "alone"), [("silu", "SiLU"), ("gelu", "GELU")])
def test_no_gate(word: str, alone: str, tmp_path: Path) -> None:
    """A constant, a tensor that no matmul made, and an activation that follows a filter."""
    act, mul = (word, [WIDE]), ("mul", [WIDE, WIDE])
    constant = ("mul", [WIDE, SCALAR])
    assert gated(tmp_path, ("mm", UP), ("mm", UP), act, constant)[2:] == [alone, "pointwise"]
    assert gated(tmp_path, ("mm", UP), act, mul)[1:] == [alone, "pointwise"]
    assert gated(tmp_path, ("mm", UP), ("neg", [WIDE]), act, mul)[2:] == [alone, "pointwise"]
    assert found(f"{word} mul", tmp_path) == [alone, "pointwise"]


@pytest.mark.parametrize(
    ("matmuls", "dims", "group"),
    [
        ([UP, UP], [[4, 512, 3072], [2048, 3072], []], "SwiGLU"),  # in place
        ([BOTH], [[2048, 6144], [2048, 3072], []], "SwiGLU"),
        ([UP], [[2048, 3072], []], "SiLU"),  # by a constant, in place
        ([UP], [[2048, 3072], [2048, 3072], []], "SiLU"),  # by a constant
    ],
)
def test_a_gate_in_a_generated_kernel(
    matmuls: list[list[list[int]]], dims: list[list[int]], group: str, tmp_path: Path
) -> None:
    sketch, name = Sketch().step(), "triton_poi_fused__unsafe_view_mul_silu_7"
    for each in matmuls:
        add_op(sketch, "mm", each)
    sketch.op(name, kernel(name, 2), dims=dims)
    assert named(sketch, tmp_path)[-1] == group


def test_attention_by_hand_has_batched_matmuls(tmp_path: Path) -> None:
    assert set(found("bmm div add softmax bmm", tmp_path)) == {"attention"}
    assert found("mm softmax mm", tmp_path) == ["GEMM", "softmax", "GEMM"]


def test_a_residual_add_stands_before_a_norm(tmp_path: Path) -> None:
    norm = "cast pow mean add rsqrt mul cast mul"
    assert found(f"mm add {norm}", tmp_path)[:2] == ["GEMM", "residual add"]
    assert found("mm add mm", tmp_path) == ["GEMM", "pointwise", "GEMM"]
    assert found(f"mm add {norm}", tmp_path, [X, [768]])[1] == "pointwise"  # a bias


def test_kv_cache_by_the_sizes_of_a_cat(tmp_path: Path) -> None:
    sketch = Sketch().step()
    for sizes, dim in (([[1, 4, 9, 64], [1, 4, 1, 64]], "-2"), ([HALF, HALF], "-1")):
        sketch.op(
            "aten::cat",
            kernel(COPY, 2),
            dims=[sizes, []],
            types=["TensorList", "Scalar"],
            concrete=["", dim],
        )
    assert named(sketch, tmp_path) == ["KV cache", "copies"]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("triton_poi_fused__unsafe_view_mul_silu_7", "SiLU"),
        ("triton_poi_fused__unsafe_view_gelu_mul_2", "GELU"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "RMSNorm"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_sub_0", "normalization"),
        ("triton_poi_fused__scaled_dot_product_cudnn_attention_cat_cos_mul_neg_sin_4", "RoPE"),
        ("triton_poi_fused__unsafe_view_add_cat_mul_neg_split_transpose_view_1", "RoPE"),
        ("triton_poi_fused__unsafe_view_add_3", "pointwise"),
        ("triton_poi_fused_addmm_relu_1", "ReLU"),
        ("triton_red_fused_embedding_dense_backward_nll_loss_forward_sum_1", "reductions"),
        ("_geglu_tanh_forward_kernel", "GeGLU"),
        ("void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, float)", "RMSNorm"),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "RoPE"),
        ("Memcpy HtoD (Pageable -> Device)", "copy HtoD"),
        ("a_name_that_says_nothing", "other kernels"),
    ],
)
def test_by_the_name_alone(name: str, group: str, tmp_path: Path) -> None:
    work = memcpy(name, 2, 4) if name.startswith("Memcpy") else kernel(name, 2)
    assert named(Sketch().step().stray(work), tmp_path) == [group]


def test_matmuls_of_the_backward_pass(tmp_path: Path) -> None:
    engine = "autograd::engine::evaluate_function: "
    sketch = Sketch().step()
    sketch.op(f"{engine}MmBackward0 > MmBackward0 > aten::mm", kernel(GEMM, 9))
    sketch.op(f"{engine}AddmmBackward0 > aten::sum", kernel(REDUCE, 2))
    sketch.op(f"{engine}ViewBackward0 > aten::add_", kernel(ADD, 2))
    sketch.op(f"{engine}torch::autograd::AccumulateGrad > aten::add_", kernel(ADD, 2))
    sketch.op(f"{engine}CheckpointFunctionBackward > aten::mm", kernel(GEMM, 9))
    assert named(sketch, tmp_path) == [
        "GEMM backward",
        "bias gradient",
        "gradient sums",
        "gradient accumulation",
        "GEMM",
    ]
