"""The readers that families share: C++ names, mangled names, words, op lists."""

from __future__ import annotations

import pytest

from foretrace.work.families import _cpp
from foretrace.work.families._parser import op_word, role_by_words, split_ops
from sweep import looped


def test_a_c_plus_plus_name() -> None:
    found = _cpp.parse(
        "void at::native::(anonymous namespace)::f<4, std::pair<int, float>, (int)7>(int, float*)"
    )
    assert (found.scope, found.base, found.params) == ("at::native", "f", "(int, float*)")
    assert found.args == ("4", "std::pair<int, float>", "(int)7")
    assert not found.truncated


def test_a_return_type_in_front() -> None:
    name = (
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
        "vllm::f<c10::BFloat16, 8>(P)"
    )
    found = _cpp.parse(name)
    assert (found.scope, found.base, found.args) == ("vllm", "f", ("c10::BFloat16", "8"))


def test_both_spellings_of_numbers() -> None:
    assert [_cpp.integer(text) for text in ("4", "4ul", "(int)4", "(unsigned long)4", "-2")] == [
        4,
        4,
        4,
        4,
        -2,
    ]
    assert [_cpp.integer(text) for text in ("x", "", "4x")] == [None, None, None]
    assert [_cpp.boolean(text) for text in ("true", "(bool)1", "false", "(bool)0", "1")] == [
        True,
        True,
        False,
        False,
        None,
    ]


def test_a_cut_name_drops_its_half_argument() -> None:
    found = _cpp.parse("void f<float, 12")
    assert found.truncated
    assert found.args == ("float",)
    assert _cpp.parse("void at::native::vectorized_elem...").base == ""


def test_identifiers_of_a_mangled_name() -> None:
    name = "_ZN2ck12_GLOBAL__N_127kernel_gemm_xdl_cshuffle_v3INS_8SequenceIJLi8ELi32EEEELNS_18GemmSpecializationE7ELi256E3fooE"
    assert _cpp.identifiers(name) == (
        "ck",
        "kernel_gemm_xdl_cshuffle_v3",
        "Sequence",
        "GemmSpecialization",
        "foo",
    )


def test_types_and_numbers_after_an_identifier() -> None:
    assert _cpp.type_after("_ZN1a7FunctorIDF16bLi4EE", "Functor") == "bf16"
    assert _cpp.type_after("_ZN1a7FunctorIN3c108BFloat16EE", "Functor") == "bf16"
    assert _cpp.numbers_after("_ZN1a8MetadataILi4ELi5EEE", "Metadata") == [4, 5]
    assert _cpp.type_after("_ZN1a", "Functor") is None


@pytest.mark.parametrize(
    ("functor", "op"),
    [
        ("GeluCUDAKernelImpl", "gelu"),
        ("GeluBackwardCUDAKernelImpl", "gelu_backward"),
        ("rsqrt_kernel_cuda", "rsqrt"),
        ("where_kernel_impl", "where"),
        ("addcmul_cuda_kernel", "addcmul"),
        ("CompareEqFunctor", "eq"),
        ("MulFunctor", "mul"),
        ("CUDAFunctor_add", "add"),
        ("mse_backward_cuda_kernel", "mse_loss_backward"),
        ("BitwiseAndFunctor", "bitwise_and"),
    ],
)
def test_the_op_behind_a_functor(functor: str, op: str) -> None:
    assert op_word(functor) == op


@looped(
    ("name", "role"),
    [
        ("_rms_norm_fwd_kernel", "normalization"),
        ("add_rmsnorm_quant_kernel", "normalization"),
        ("_attn_fwd", "attention"),
        ("topk_kernel", "sort"),
        ("_w8a8_block_fp8_matmul", "gemm"),
        ("FusedAddRMSNormKernel", "normalization"),
        ("reshape_and_cache", "scatter_gather"),
        ("convert_kernel", "other"),
        ("_causal_conv1d_fwd", "conv"),
        ("cross_device_reduce_1stage", "comms"),
        ("_normalise", "other"),
        ("zzz", "other"),
    ],
)
def test_a_role_from_words(name: str, role: str) -> None:
    assert role_by_words(name) == role


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("", []),
        ("_to_copy_add", ["_to_copy", "add"]),
        # not sorted, as the node names of another setting are
        ("add__to_copy", ["add", "_to_copy"]),
        ("my_own_op_silu", ["my_own_op", "silu"]),
        ("fused_add_rms_norm_static_fp8", ["fused_add_rms_norm", "static_fp8"]),
        (
            "native_layer_norm_native_layer_norm_backward",
            ["native_layer_norm", "native_layer_norm_backward"],
        ),
        ("clamp_max_pool2d", ["clamp", "max_pool2d"]),
    ],
)
def test_splitting_op_lists(text: str, ops: list[str]) -> None:
    assert list(split_ops(text)) == ops
