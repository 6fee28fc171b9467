# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""The activations and their slopes as Triton functions, in float32.

GELU's tanh form is computed as `a * sigmoid(2 z)` with the exponent folded into base 2. It is the
same function without a branch, in about half the instructions, and it keeps its digits for negative
`a`, where `1 + tanh(z)` cancels.

EXACT selects float32 accuracy. Without it the result is good for bf16 and fp16, and one reciprocal
root, squared, replaces a division.
"""

import triton
import triton.language as tl

# exp(-2 z) = exp2(a * (a * a * CUBIC + LINEAR)) for z = sqrt(2 / pi) * (a + 0.044715 a^3).
LINEAR = tl.constexpr(-2.302208198144325)
CUBIC = tl.constexpr(-0.1029432395800235)
# The derivative of 2 z is SLOPE + SLOPE_CUBIC * a * a.
SLOPE = tl.constexpr(1.5957691216057308)
SLOPE_CUBIC = tl.constexpr(0.21406444881780076)
MINUS_LOG2E = tl.constexpr(-1.4426950408889634)
MINUS_HALF_LOG2E = tl.constexpr(-0.7213475204444817)
SQRT_HALF = tl.constexpr(0.7071067811865476)
INV_SQRT_2PI = tl.constexpr(0.3989422804014327)
# Beyond these the sigmoid is 0 or 1 in float32. Staying inside keeps exp2 and the squares finite,
# so that `e * s`, which is 1 - s without its cancellation, is never inf * 0.
FAR_GELU = tl.constexpr(10.0)
FAR_EXP2 = tl.constexpr(126.0)


@triton.jit
def _one_over(d, EXACT: tl.constexpr):
    if EXACT:
        return tl.div_rn(1.0, d)
    else:
        root = tl.rsqrt(d)
        return root * root


@triton.jit
def activate(a, ACT: tl.constexpr, EXACT: tl.constexpr):
    """`act(a)`."""
    if ACT == "gelu_tanh":
        return a * _one_over(1.0 + tl.exp2(a * (a * a * CUBIC + LINEAR)), EXACT)
    elif ACT == "gelu_erf":
        return 0.5 * a * (1.0 + tl.erf(a * SQRT_HALF))
    elif ACT == "silu":
        return a * _one_over(1.0 + tl.exp2(a * MINUS_LOG2E), EXACT)
    else:
        tl.static_assert(ACT == "relu")
        return tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def activate_with_slope(a, ACT: tl.constexpr, EXACT: tl.constexpr):
    """`(act(a), act'(a))`, sharing what the two have in common."""
    if ACT == "gelu_tanh":
        near = tl.minimum(tl.maximum(a, -FAR_GELU), FAR_GELU)
        e = tl.exp2(near * (near * near * CUBIC + LINEAR))
        s = _one_over(1.0 + e, EXACT)
        value = a * s
        slope = s + value * (e * s) * (near * near * SLOPE_CUBIC + SLOPE)
    elif ACT == "gelu_erf":
        s = 0.5 * (1.0 + tl.erf(a * SQRT_HALF))
        value = a * s
        slope = s + a * INV_SQRT_2PI * tl.exp2(a * a * MINUS_HALF_LOG2E)
    elif ACT == "silu":
        e = tl.exp2(tl.minimum(a * MINUS_LOG2E, FAR_EXP2))
        s = _one_over(1.0 + e, EXACT)
        value = a * s
        slope = s + value * (e * s)
    else:
        tl.static_assert(ACT == "relu")
        value = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
        slope = tl.where(a > 0.0, 1.0, 0.0)
    return value, slope


@triton.jit
def factors(gate, up, ACT: tl.constexpr, EXACT: tl.constexpr):
    """What the gradient of `act(gate) * up` is multiplied by to give those of gate and of up."""
    value, slope = activate_with_slope(gate, ACT, EXACT)
    return up * slope, value


@triton.jit
def gradients(grad, gate, up, ACT: tl.constexpr, EXACT: tl.constexpr):
    """The gradients of gate and up. With ACT "factors", `gate` and `up` are the `factors`."""
    if ACT == "factors":
        return grad * gate, grad * up
    else:
        of_gate, of_up = factors(gate, up, ACT, EXACT)
        return grad * of_gate, grad * of_up
