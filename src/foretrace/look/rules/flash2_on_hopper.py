"""Flash attention 2 on a Hopper card.

What it shows: attention in PyTorch's copy of flash attention 2 on an H100 or H200, where cuDNN
computes the same.

Why it matters: flash attention 2 was written for Ampere. It uses neither the asynchronous matmuls
nor the bulk copies of Hopper; cuDNN's kernels do. Measured on an H200 (torch 2.11, bf16, the same
inputs, 512 to 8192 tokens): flash attention 2 takes 1.2 to 1.6 times as long as cuDNN with head
size 64, 1.5 to 1.9 times with head size 128, and its backward 1.5 to 2.0 times. With 128 tokens the
forward takes 1.1 to 1.4 times as long.

How it is computed: the time of the kernels in the namespace `pytorch_flash`, on a card of compute
capability 9.0, with 16-bit inputs, a head size up to 128 and at least 128 queries. Calls with
dropout, ALiBi, a window or a score cap are left out. The saving is at most half of that time: the
largest ratio that we measured is 1.98.

When it is wrong: cuDNN may refuse a call (`sdpa_kernel` with this backend alone then fails), and
other sizes than those measured may gain less. cuDNN takes more host time: one decoding call (1
query, 4096 keys) took 92 us instead of 65 us, with 36.0 us on the GPU instead of 39.5 us. So a step
that is host-bound becomes slower, and calls with few queries are left out.
"""

from __future__ import annotations

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.kernels import Case

NAMESPACE = "pytorch_flash::"
# cuDNN was measured with head sizes 64 and 128.
LARGEST_HEAD = 128
FEWEST_QUERIES = 128
# Batch, tokens, heads, head size; sequences packed into one batch have three dimensions.
DIMENSIONS, QUERIES = 4, 1
OTHERWISE = ("dropout", "alibi", "local", "softcap")
# The largest of the measured ratios, the backward of 4 x 32 heads x 2048 tokens x 128 (an H200,
# torch 2.11; tests/recorded/measured.json).
RATIO = 1.98


@rule(
    "Flash attention 2 on a Hopper card",
    "gpu shapes",
    realised=0.5,
    example="attention_flash_8x16x1024x64_bf16",
)
def _check(seen: Seen) -> Found:
    hopper = seen.device is not None and seen.device.arch == "sm_90"
    whole = seen.where(_replaceable) if hopper else None
    if whole is None:
        return
    saved = round(whole.ns * (1 - 1 / RATIO))
    title = f"Flash attention 2 on a Hopper card: {plural(whole.count, 'kernel')} {seen.per}"
    detail = (
        f"Time: {time_text(whole.ns)} {seen.per}. On an H200 cuDNN's attention was 1.1 to 1.98 "
        f"times as fast on the same inputs, which would save at most {time_text(saved)}."
    )
    kernels = seen.facts(whole.cases, "kernel op shapes count ns")
    evidence = {"kernels": kernels, "count": whole.count, "ns": whole.ns}
    fix = "use cuDNN attention (sdpa_kernel(SDPBackend.CUDNN_ATTENTION))"
    yield seen.found(title, detail, evidence, whole.events, saved, fix)


def _replaceable(case: Case) -> bool:
    head, query = case.id.get("head_dim"), case.call.tensor(0) if case.call else None
    return (
        case.role == "attention"
        and NAMESPACE in case.name
        and not any(case.id.get(word) for word in OTHERWISE)
        and (head is None or head <= LARGEST_HEAD)
        and query is not None
        and len(query.dims) == DIMENSIONS
        and query.dims[QUERIES] >= FEWEST_QUERIES
        and case.id.get("dtype_in") in (None, "bf16", "f16")
    )
