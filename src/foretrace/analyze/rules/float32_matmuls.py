"""Float32 matmuls that leave the tensor cores idle.

What it shows: matmuls and convolutions in float32 whose kernels run on the plain cores.

Why it matters: on an A100 the tensor cores multiply float32 (as TF32) eight times as fast, on an
H100 seven times. `torch.set_float32_matmul_precision("high")` allows it for matmuls, with 10 bits
of mantissa. bf16 is twice as fast again.

How it is computed: kernels whose name states float32 operands and no tensor-core instruction. Where
other matmuls, or other convolutions, of the trace use TF32, it is allowed already: then the library
chose these kernels. What TF32 saves is predicted by the fix `tf32`.

When it is wrong: float32 may be intended, since TF32 rounds the operands. Memory-bound matmuls
gain little.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.rules._common import facts, per, together
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model.metadata import device_of
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule


def _check(trace: Trace) -> Iterator[Finding]:
    matmuls = [case for case in trace.order.cases if case.role in ("gemm", "conv")]
    plain = [case for case in matmuls if is_plain(case)]
    allowed = {case.role for case in matmuls if is_tf32(case)}
    slow = [case for case in plain if case.role not in allowed]
    whole = together(trace, slow or plain)
    if whole is None:
        return
    device = device_of(trace.about)
    faster = device is None or "tf32" in device.peak_flops
    advice = "This card's tensor cores take 16-bit types only"
    if faster and slow:
        allowing = _tf32({case.role for case in whole.cases})
        advice = f"TF32 ({allowing}) or bf16 would use the tensor cores"
    elif faster:
        advice = "TF32 is allowed, others use it: the library chose these kernels"
    title = f"{plural(whole.count, 'float32 matmul')} {per(trace)} without tensor cores"
    detail = (
        f"Total: {time_text(whole.ns)} {per(trace)}, {percent_text(whole.share)} of "
        f"kernel time. {advice}."
    )
    kernels = facts(trace, whole.cases, "kernel name op shapes count ns tflops")
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events)


def is_tf32(case: Case) -> bool:
    """Whether a float32 matmul or convolution ran on tensor cores."""
    kind = case.id.get("dtype_in")
    return kind == "tf32" or (kind == "f32" and case.id.get("tensor_core") is True)


def is_plain(case: Case) -> bool:
    """Whether a float32 matmul or convolution ran without tensor cores."""
    return case.id.get("dtype_in") == "f32" and case.id.get("tensor_core") is False


def _tf32(roles: set[str]) -> str:
    """The setting that allows TF32 for these kernels."""
    matmuls, convolutions = (
        'torch.set_float32_matmul_precision("high")',
        "torch.backends.cudnn.allow_tf32 = True",
    )
    if "gemm" not in roles:
        return convolutions
    return f"{matmuls}, {convolutions}" if "conv" in roles else matmuls


RULE = Rule(
    "float32_matmuls",
    "Float32 matmuls that leave the tensor cores idle",
    _check,
    ("gpu",),
    fixes=("tf32",),
)
