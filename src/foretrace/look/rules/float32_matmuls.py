"""Float32 matmuls that leave the tensor cores idle.

What it shows: matmuls and convolutions in float32 whose kernels run on the plain cores.

Why it matters: on an A100 the tensor cores multiply float32 (as TF32) eight times as fast, on an
H100 seven times. `torch.set_float32_matmul_precision("high")` allows it for matmuls, with 10 bits
of mantissa. bf16 is twice as fast again. A V100 has float16 alone, eight times as fast as float32.

How it is computed: kernels whose name states float32 operands and no tensor-core instruction. Where
other matmuls, or other convolutions, of the trace use TF32, it is allowed already: then the library
chose these kernels. What TF32 saves is predicted by the fix `tf32`, and
what float16 saves on a card without it by `float16`.

When it is wrong: float32 may be intended, since TF32 rounds the operands. Memory-bound matmuls
gain little.
"""

from __future__ import annotations

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.kernels import Case

# The setting that allows TF32, by the role of the kernels.
SETTINGS = {
    "gemm": 'torch.set_float32_matmul_precision("high")',
    "conv": "torch.backends.cudnn.allow_tf32 = True",
}
WORDS = ("matmul", "convolution")  # in that order


@rule(
    "Float32 matmuls that leave the tensor cores idle",
    "gpu",
    fixes="tf32 float16",
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    matmuls = [case for case in seen.cases if case.role in SETTINGS]
    plain = [case for case in matmuls if is_plain(case)]
    allowed = {case.role for case in matmuls if is_tf32(case)}
    slow = [case for case in plain if case.role not in allowed]
    whole = seen.together(slow or plain)
    if whole is None:
        return
    device, roles = seen.device, {case.role for case in whole.cases}
    faster = device is None or "tf32" in device.peak_flops
    advice = "This card's tensor cores take 16-bit types only"
    if faster and slow:
        allowing = ", ".join(setting for role, setting in SETTINGS.items() if role in roles)
        advice = f"TF32 ({allowing}) or bf16 would use the tensor cores"
    elif faster:
        advice = "TF32 is allowed, others use it: the library chose these kernels"
    words = [word for role, word in zip(SETTINGS, WORDS, strict=True) if role in roles]
    many = f"float32 {'s and '.join(words)}"
    title = f"{plural(whole.count, many, f'{many}s')} {seen.per} without tensor cores"
    detail = (
        f"Total: {time_text(whole.ns)} {seen.per}, {percent_text(whole.share)} of "
        f"kernel time. {advice}."
    )
    kernels = seen.facts(whole.cases, "kernel name op shapes count ns tflops")
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    yield seen.found(title, detail, evidence, whole.events)


def is_tf32(case: Case) -> bool:
    """Whether a float32 matmul or convolution ran on tensor cores."""
    kind = case.id.get("dtype_in")
    return kind == "tf32" or (kind == "f32" and case.id.get("tensor_core") is True)


def is_plain(case: Case) -> bool:
    """Whether a float32 matmul or convolution ran without tensor cores."""
    return case.id.get("dtype_in") == "f32" and case.id.get("tensor_core") is False
