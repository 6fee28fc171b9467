"""More calls with their exact costs: the branches that the examples in the files leave out."""

import pytest

from foretrace.model.costs import Cost, OpCall, cost

BF16, F32, I64, FP8 = "c10::BFloat16", "float", "long int", "c10::Float8_e4m3fn"
PASSES = "one pass; sorting makes several"


def op(
    name: str,
    dims: list[object],
    types: list[str],
    concrete: list[str] | None = None,
    **more: object,
) -> OpCall:
    return OpCall(f"aten::{name}", dims, types, concrete=concrete or [], **more)  # type: ignore[arg-type]


CASES = {
    "a bias with beta 0 is not read": (
        op(
            "addmm",
            [[4, 3], [4, 5], [5, 3], [], []],
            [F32] * 3 + ["Scalar"] * 2,
            ["", "", "", "0", "1"],
        ),
        Cost(120, 4 * (20 + 15), 4 * 12),
    ),
    "mm into a wider type": (
        op("mm", [[4, 5], [5, 3], []], [BF16, BF16, "Scalar"], ["", "", "6"]),
        Cost(120, 70, 48),
    ),
    "matmul broadcasts its batch": (
        op("matmul", [[2, 1, 4, 5], [3, 5, 6]], [F32] * 2),
        Cost(1440, 520, 576),
    ),
    "addbmm sums its batch away": (
        op(
            "addbmm",
            [[4, 6], [2, 4, 5], [2, 5, 6], [], []],
            [F32] * 3 + ["Scalar"] * 2,
            ["", "", "", "1", "1"],
        ),
        Cost(480, 4 * (24 + 40 + 60), 96),
    ),
    "fp4 packs two values in a byte": (
        op(
            "_scaled_mm",
            [[128, 32], [32, 64], [], [], [], [], [], []],
            ["c10::Float4_e2m1fn_x2"] * 2 + [F32] * 2 + ["", "", "Scalar", "Scalar"],
            [""] * 6 + ["15", "False"],
        ),
        Cost(2 * 128 * 64 * 64, 128 * 32 + 32 * 64 + 8, 2 * 128 * 64),
    ),
    "grouped rows": (
        op("_grouped_mm", [[100, 16], [4, 16, 8], [4], [], []], [BF16, BF16, "int", "", ""]),
        Cost(2 * 100 * 16 * 8, 2 * (1600 + 512) + 16, 2 * 800),
    ),
    "grouped depth": (
        op("_grouped_mm", [[16, 100], [100, 8], [4], [], []], [BF16, BF16, "int", "", ""]),
        Cost(2 * 100 * 16 * 8, 2 * (1600 + 800) + 16, 2 * 4 * 128),
    ),
    "causal with a cache keeps all pairs": (
        op(
            "_scaled_dot_product_flash_attention",
            [[1, 2, 1, 64], [1, 2, 100, 64], [1, 2, 100, 64], [], [], []],
            [BF16] * 3 + ["Scalar"] * 3,
            ["", "", "", "0.", "True", "False"],
        ),
        Cost(
            4 * 2 * 100 * 64,
            2 * (128 + 2 * 12_800),
            2 * 128 + 4 * 2,
            "at most: causal with unequal lengths, the mask is not deducted",
        ),
    ),
    "attention with a bias and without log-sum-exp": (
        op(
            "_efficient_attention_forward",
            [[1, 32, 2, 8]] * 3 + [[1, 2, 32, 32]],
            [F32] * 4,
            ["", "", "", "", "", "", "32", "32", "0.", "0", "False"],
        ),
        Cost(4 * 2 * 32 * 32 * 8, 4 * (3 * 512 + 2048), 4 * 512),
    ),
    "values narrower than keys": (
        op(
            "_cudnn_attention_forward",
            [[1, 2, 32, 16], [1, 2, 32, 16], [1, 2, 32, 8]],
            [BF16] * 3,
            ["", "", "", "", "", "", "32", "32", "False", "0.", "False", "False"],
        ),
        Cost(2 * 2 * 32 * 32 * 24, 2 * (1024 + 1024 + 512), 2 * 512),
    ),
    "out decides the type": (
        op("add", [[8], [8], [], [0]], [BF16, BF16, "Scalar", F32]),
        Cost(8, 32, 32),
    ),
    "a scatter that is not in place copies": (
        op("scatter", [[10], [], [2], []], [F32, "Scalar", I64, "Scalar"], ["", "0", "", "1."]),
        Cost(0, 16 + 40, 8 + 40),
    ),
    "index_add reads and writes whole rows": (
        op(
            "index_add_",
            [[10, 4], [], [3], [3, 4], []],
            [F32, "Scalar", I64, F32, "Scalar"],
            ["", "0", "", "", "1"],
        ),
        Cost(12, 24 + 48 + 48, 48),
    ),
    "index_put knows its values": (
        op("_index_put_impl_", [[10, 4], [], [3, 4], []], [F32, "", F32, "Scalar"]),
        Cost(
            None,
            48,
            None,
            touched=48,
            note=(
                "at least: the index tensors are not recorded, and broadcast values are written "
                "more often"
            ),
        ),
    ),
    "nonzero reads everything": (
        op("nonzero", [[100]], ["bool"]),
        Cost(None, 100, None, "at least: the size of the result is data", touched=100),
    ),
    "batch norm at inference keeps no statistics": (
        op(
            "cudnn_batch_norm",
            [[8, 3, 4], [3], [3], [3], [3], []],
            [F32] * 5 + ["Scalar"],
            [""] * 5 + ["False"],
        ),
        Cost(None, 4 * (96 + 12), 4 * 96),
    ),
    "layer norm backward leaves the bias unread": (
        op(
            "native_layer_norm_backward",
            [[6, 8], [6, 8], [], [6, 1], [6, 1], [8], [8], []],
            [F32, F32, "ScalarList", F32, F32, F32, F32, "ScalarList"],
            ["", "", "[8]", "", "", "", "", "[True, True, True]"],
        ),
        Cost(None, 4 * (48 + 48 + 6 + 6 + 8), 4 * (48 + 8 + 8)),
    ),
    "foreach norm writes a value per tensor": (
        op("_foreach_norm", [[[4], [6]], []], ["TensorList", "Scalar"], list_type=F32),
        Cost(10, 40, 8),
    ),
    "unscale": (
        OpCall(
            "aten::_amp_foreach_non_finite_check_and_unscale_",
            [[[4], [6]], [1], []],
            ["TensorList", F32, F32],
            list_type=F32,
        ),
        Cost(10, 40, 40),
    ),
    "kthvalue": (
        op("kthvalue", [[4, 9], [], []], [F32, "Scalar", "Scalar"], ["", "3", "1"]),
        Cost(None, 144, 48, PASSES),
    ),
    "a pool backward reads its indices": (
        op(
            "max_pool2d_with_indices_backward",
            [[1, 1, 2, 2], [1, 1, 4, 4], [], [1, 1, 2, 2]],
            [F32, F32, "ScalarList", I64],
        ),
        Cost(None, 16 + 32, 64),
    ),
    "rotary embedding gathers its table": (
        OpCall(
            "_C::rotary_embedding",
            [[888], [888, 512], [888, 64], [], [131072, 64], []],
            [I64, BF16, BF16, "Scalar", BF16, "Scalar"],
        ),
        Cost(None, 888 * (8 + 2 * (512 + 64 + 64)), 888 * 2 * (512 + 64)),
    ),
    "quantize": (
        OpCall("_C::static_scaled_fp8_quant", [[4, 8], [4, 8], []], [FP8, BF16, F32]),
        Cost(32, 64 + 4, 32),
    ),
    "liger rope": (
        OpCall("LigerRopeFunction", [[1, 2, 8, 4], [1, 1, 8, 4], [1, 8, 4], [1, 8, 4]], [BF16] * 4),
        Cost(None, 2 * (64 + 32 + 32 + 32), 2 * 96),
    ),
    "all-reduce in place": (
        OpCall("symm_mem::multimem_all_reduce_", [[2_557_440], [], []], [BF16, "", ""]),
        Cost(
            None,
            5_114_880,
            5_114_880,
            "at least: the message in and out once; the algorithm moves more",
        ),
    ),
}


@pytest.mark.parametrize(("call", "expected"), CASES.values(), ids=CASES.keys())
def test_exact_costs(call: OpCall, expected: Cost) -> None:
    assert cost(call) == expected
