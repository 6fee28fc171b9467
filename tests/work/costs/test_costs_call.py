"""Reading a call's arguments: what is there is read exactly, what is not is None."""

import pytest
from worked_examples import call

from foretrace.work.costs import OpCall, cost
from foretrace.work.costs._cost import broadcast
from foretrace.work.costs.matmul import OPERANDS


class TestOpCall:
    call = OpCall(
        "aten::x",
        [[2, 3], [], [[4], [5]], [], []],
        ["float", "", "TensorList", "double", "Scalar"],
        [[3, 1], [], [[1], [1]], [], []],
        ["", "", "", "", "[1, -2]"],
        list_type="c10::Half",
    )

    @pytest.mark.parametrize("dims", [None, "2", 5, [[1]], [-1, 2], [1.5], ["a"]])
    def test_malformed_dims_are_no_tensor(self, dims: object) -> None:
        assert OpCall("x", [dims], ["float"]).tensor(0) is None

    def test_values(self) -> None:
        call = OpCall(
            "x",
            concrete=[
                "True",
                "-3",
                "1e-05",
                "[2, 2]",
                "[True, False]",
                "[]",
                "",
                "nan",
                "15",
                "inf",
            ],
        )
        assert (call.flag(0), call.flag(1), call.flag(6)) == (True, None, None)
        assert (call.number(1), call.number(2), call.number(6)) == (-3, 1e-05, None)
        assert (call.integer(1), call.integer(7), call.integer(9)) == (-3, None, None)
        assert (call.numbers(3), call.numbers(4), call.numbers(5)) == ((2, 2), (1, 0), ())
        assert (call.numbers(1), call.numbers(6), call.numbers(7)) == ((-3,), None, None)
        assert (call.scalar_type(8), call.scalar_type(1), call.scalar_type(6)) == (
            "c10::BFloat16",
            None,
            None,
        )

    def test_large_integers_stay_exact(self) -> None:
        assert OpCall("x", concrete=["9007199254740993"]).integer(0) == 9_007_199_254_740_993


def test_the_buffer_of_the_result_is_no_operand() -> None:
    """Compiled code passes it as one more argument, `_int_mm` included."""
    shapes = {2: "i8[32,16] i8[16,8]", 3: "i8[32,8] i8[32,16] i8[16,8]"}
    assert {"aten::mm", "aten::_int_mm", "aten::addmm"} <= set(OPERANDS)
    for op, count in OPERANDS.items():
        alone, with_out = call(f"{op}({shapes[count]})"), call(f"{op}({shapes[count]} i32[32,8])")
        found = cost(alone)
        assert found is not None
        assert found.flops == 2 * 32 * 16 * 8
        assert cost(with_out) == found
        assert with_out.every_tensor()[: OPERANDS[op]] == alone.every_tensor()


def test_broadcast() -> None:
    assert broadcast((4, 1, 3), (5, 1)) == (4, 5, 3)
    assert broadcast((0,), (1,)) == (0,)
    assert broadcast((2,), (3,)) is None
    assert broadcast() == ()
