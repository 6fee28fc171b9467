"""Element by element: every operand read once at the size it has in memory, the broadcast result
written once.

- A broadcast or expanded operand is read once, not once per repeat.
- In place (`add_`) reads `self` too and writes it; with `out` the result has the type of `out`.
- Arithmetic counts one FLOP per result element, a transcendental function or an activation too:
  what the hardware spends on `exp` is not in a trace. Comparisons, logic, selection, casts and
  copies count none.
- The result's type follows PyTorch's promotion. A 0-d operand beside larger ones is most often a
  Python number in disguise (`x * 0.5` shows a 0-d double): it decides the type as a number would,
  and its 8 bytes are not counted.
- One operand given twice (`x * x`) is counted twice: a trace records shapes, not addresses.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, broadcast, moved
from foretrace.model.costs._types import FLOATING, INTEGER, category, promote, with_number

ARITHMETIC, SELECTION = 1, 0

# Unary: the type stays; integers become float; the result is bool.
_SAME = """
    abs neg negative positive sign sgn ceil floor round trunc frac square relu relu6 gelu silu mish elu celu selu
    leaky_relu hardtanh hardswish hardsigmoid hardshrink softshrink softplus log_sigmoid threshold conj_physical
    nan_to_num bitwise_not"""
_TO_FLOAT = """
    acos acosh asin asinh atan atanh cos cosh sin sinh sinc tan tanh sigmoid logit exp exp2 expm1 log log2 log10 log1p
    sqrt rsqrt reciprocal erf erfc erfinv lgamma mvlgamma digamma polygamma angle i0 deg2rad rad2deg special_entr
    special_erfcx special_i0e special_i1 special_i1e special_log_ndtr special_ndtri"""
_TO_BOOL = "isnan isinf isfinite isposinf isneginf signbit logical_not"
# Binary and ternary.
_BINARY = """
    add sub rsub mul multiply subtract remainder fmod pow maximum minimum fmax fmin floor_divide hypot copysign
    nextafter heaviside gcd lcm ldexp logaddexp logaddexp2 bitwise_left_shift bitwise_right_shift __lshift__ __rshift__
    _prelu_kernel"""
_BINARY_TO_FLOAT = (
    "div divide true_divide atan2 xlogy special_xlog1py special_zeta igamma igammac float_power"
)
_LOGIC = "bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__"
_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor"
_TERNARY = "addcmul addcdiv lerp clamp clip clamp_min clamp_max"
# Of a gradient (or prediction) and the saved input (or target).
_PAIRS = """
    gelu_backward silu_backward sigmoid_backward tanh_backward threshold_backward leaky_relu_backward hardtanh_backward
    hardswish_backward hardsigmoid_backward hardshrink_backward softshrink_backward softplus_backward logit_backward
    log_sigmoid_backward mish_backward native_dropout_backward mse_loss l1_loss smooth_l1_loss huber_loss
    soft_margin_loss"""
_TRIPLES = "mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy"


def _pointwise(
    reads: tuple[int, ...],
    rule: str = "promote",
    flop: int = ARITHMETIC,
    typed: tuple[int, ...] = (),
) -> Price:
    """A price for operands at `reads`; `typed` are those that decide the type where not all of them
    do.
    """

    def price(call: OpCall) -> Cost | None:
        operands = [call.tensor(index) for index in reads]
        present = [operand for operand in operands if operand is not None]
        dims = broadcast(*(operand.dims for operand in present))
        if not present or dims is None:
            return None
        type_name = _result_type(call, typed or reads, rule)
        if call.name.endswith("_") and not call.name.endswith("__") and operands[0] is not None:
            dims, type_name = operands[0].dims, operands[0].type
        given = [
            out for index in range(max(reads) + 1, len(call.types)) if (out := call.tensor(index))
        ]
        out = Tensor(dims, given[-1].type if given else type_name)
        return moved(
            (each for each in present if each.dims or not dims), [out], flop * out.elements
        )

    return price


def _result_type(call: OpCall, places: tuple[int, ...], rule: str) -> str:
    if rule == "bool":
        return "bool"
    operands = [tensor for index in places if (tensor := call.tensor(index))]
    wide = promote(operand.type for operand in operands if operand.dims)
    numbers = [category(operand.type) for operand in operands if not operand.dims]
    numbers += [_number_category(text) for index in places if (text := call.text(index))]
    if wide is None and operands:
        wide = promote(operand.type for operand in operands)
    result = with_number(wide, max(numbers, default=0))
    return with_number(result, FLOATING) if rule == "float" else result


def _number_category(text: str) -> int:
    if text in ("True", "False"):
        return 0
    return INTEGER if text.lstrip("+-").isdigit() else FLOATING


def _glu(call: OpCall) -> Cost | None:
    """glu (self, dim): the halves of `self` along `dim` become one output of half the size."""
    whole = call.tensor(0)
    if whole is None:
        return None
    half = Tensor((whole.elements // 2,), whole.type)
    return moved([whole], [half], half.elements)


def _glu_backward(call: OpCall) -> Cost | None:
    """glu_backward (grad_output, self, dim)."""
    gradient, whole = call.tensor(0), call.tensor(1)
    if gradient is None or whole is None:
        return None
    return moved([gradient, whole], [Tensor(whole.dims, whole.type)], whole.elements)


def _table(names: str, price: Price) -> dict[str, Price]:
    """Every op of `names` and its in-place twin (an op that has none is never recorded under that
    name).
    """
    return {f"aten::{name}{mark}": price for name in names.split() for mark in ("", "_")}


_GELU = OpCall(
    "aten::gelu", [[64, 128, 3072], []], ["c10::BFloat16", ""], [[393216, 3072, 1], []], ["", ""]
)
_MUL = OpCall(
    "aten::mul", [[64, 128, 3072]] * 2, ["c10::BFloat16"] * 2, [[393216, 3072, 1]] * 2, ["", ""]
)

KIND = Kind(
    prices={
        **_table(_SAME, _pointwise((0,))),
        **_table(_TO_FLOAT, _pointwise((0,), "float")),
        **_table(_TO_BOOL, _pointwise((0,), "bool", SELECTION)),
        **_table(_BINARY, _pointwise((0, 1))),
        **_table(_BINARY_TO_FLOAT, _pointwise((0, 1), "float")),
        **_table(_LOGIC, _pointwise((0, 1), flop=SELECTION)),
        **_table(_COMPARE, _pointwise((0, 1), "bool", SELECTION)),
        **_table(_TERNARY, _pointwise((0, 1, 2))),
        **_table("masked_fill", _pointwise((0, 1), flop=SELECTION, typed=(0,))),
        **_table("tril triu", _pointwise((0,), flop=SELECTION)),
        **_table(_PAIRS, _pointwise((0, 1))),
        **_table(_TRIPLES, _pointwise((0, 1, 2))),
        "aten::where": _pointwise((0, 1, 2), flop=SELECTION, typed=(1, 2)),
        "aten::elu_backward": _pointwise((0, 5)),
        "aten::glu": _glu,
        "aten::glu_backward": _glu_backward,
    },
    examples=(
        (_GELU, Cost(25_165_824, 50_331_648, 50_331_648)),
        (_MUL, Cost(25_165_824, 100_663_296, 50_331_648)),
        (
            OpCall("aten::mul", [[1024], [4, 1024, 1024]], ["c10::BFloat16"] * 2),
            Cost(4_194_304, 2048 + 8_388_608, 8_388_608),
        ),
        (
            OpCall("aten::div", [[4, 1024, 1024], []], ["float", "long int"], [[1024, 1, 0], []]),
            Cost(4_194_304, 16_384, 16_777_216),
        ),
        (
            OpCall("aten::eq", [[1, 141], []], ["long int", "Scalar"], concrete=["", "1"]),
            Cost(0, 1128, 141),
        ),
        (
            OpCall(
                "aten::where",
                [[8, 8], [8, 8], []],
                ["bool", "c10::Half", "Scalar"],
                concrete=["", "", "0."],
            ),
            Cost(0, 64 + 128, 128),
        ),
        (
            OpCall(
                "aten::add_",
                [[16, 16], [16], []],
                ["float", "c10::BFloat16", "Scalar"],
                concrete=["", "", "1"],
            ),
            Cost(256, 1024 + 32, 1024),
        ),
        (OpCall("aten::sqrt", [[10]], ["long int"]), Cost(10, 80, 40)),
    ),
)
