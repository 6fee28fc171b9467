"""Convolutions in channels_last.

What it looks for: kernels that change the layout between NCHW and NHWC around convolutions. cuDNN
computes in NHWC on tensor cores; tensors in NCHW are converted before and after each convolution,
forward and backward.

What must hold: no group norm or instance norm stands between the convolutions: those are slower in
channels_last than the conversions that it saves.

What changes: the changes of layout are gone, but those of an image with three channels, which cuDNN
pads. Batch norm's kernels for channels_last read along the channels, and take the usual time of
three passes over the tensor (backward: five). Convolutions stay as they are; at best, they reach
the usual share of the peak. On a CPU oneDNN reorders dense NCHW tensors: 20% of the convolutions'
time goes, in inference alone. Training steps took 0.9 to 1.9 times as long (seven small nets).
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import BEST, USUAL, WORST, Speed, at_speeds, joined
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Case, GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.rules._seen import LAYOUT
from foretrace.work.costs import OpCall

SLOWER = ("aten::group_norm", "aten::native_group_norm", "aten::instance_norm")
CONVOLUTION = "conv"
CONVOLUTIONS = frozenset({"mkldnn_convolution", "_slow_conv2d_forward"})
ON_CPU = (0.2, 0.5, 0.0)
NORMS = (
    "aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm",
    "aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward",
    "aten::batch_norm_backward",
)  # fmt: skip
PASSES, PASSES_BACK = 3, 5  # of a training step: statistics first, then the result
CHANNELS = 8  # a multiple that tensor cores take as it is
NORM_SHARE = 0.8  # of what a plain kernel moves in the same time
KINDS = {"f32": "tf32", "tf32": "tf32", "f16": "fp16"}  # others count as bf16


def _on_cpu(step: CpuStep) -> Proposals:
    calls = step.arguments.items()
    found = [event for event, call in calls if _is_nchw(call, step.bare(event))]
    if found and not len(step.ops("aten::convolution_backward")):
        why = f"{plural(len(found), 'convolution')} of tensors in NCHW"
        order = "model and input .to(memory_format=torch.channels_last)"
        yield step.proposal(order, why, found, ON_CPU)


def _is_nchw(call: OpCall, name: str) -> bool:
    """Whether a convolution of a CPU has a dense input with channels ahead of rows."""
    data = call.tensor(0) if name in CONVOLUTIONS else None
    if data is None or len(data.dims) != 4 or not data.strides or len(data.strides) != 4:
        return False
    _, channels, height, width = data.dims
    return channels > 1 and height * width > 1 and data.strides[3] == 1 < data.strides[1]


@fix("Convolutions in channels_last", "gpu", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    rows = step.rows_where(lambda case: case.id.get("op") == LAYOUT and CONVOLUTION in case.op)
    if not len(rows) or len(step.ops(*SLOWER)):
        return
    why = f"{plural(len(rows), 'kernel')} per step change NCHW to NHWC or back for cuDNN"
    order = "use memory_format=torch.channels_last for model and input"
    changes = at_speeds(lambda speed: _change(step, rows, speed))
    yield Proposal(order, why, *changes, events=step.events(rows))


def _change(step: Step, rows: Ints, speed: Speed) -> GraphChange:
    def is_narrow(case: Case) -> bool:
        """Whether a convolution has a number of channels that cuDNN pads: an image's three."""
        tensors = case.call.every_tensor() if case.call else ()
        return any(len(each.dims) > 3 and each.dims[1] % CHANNELS for each in tensors)

    def price(case: Case, _: Speed) -> float:
        kind = KINDS.get(str(case.id.get("dtype_in")), "bf16")
        return step.arithmetic_ns(USUAL.conv, case.flops or 0, kind)

    narrow = frozenset(step.rows_where(is_narrow).tolist()) if speed is not BEST else frozenset()
    gone = GraphChange(gone=frozenset(rows.tolist()) - narrow)
    if speed is WORST:
        return gone
    faster = joined(_norm(step, event, speed) for event in step.ops(*NORMS).tolist())
    if speed is USUAL:
        return joined([gone, faster])
    convs = step.rows_where(lambda case: case.role == CONVOLUTION and bool(case.flops))
    return joined([gone, faster, step.repriced(convs, price)[1]])


def _norm(step: Step, event: int, speed: Speed) -> GraphChange:
    """The kernels of a batch norm, all shorter by the same share."""
    rows = step.below([event])
    tensors = [each for each in step.tensors(event) if len(each.dims) > 3]
    if not tensors or not len(rows):
        return GraphChange()
    passes = PASSES_BACK if "backward" in step.name(event) else PASSES
    ns = step.memory_ns(speed, passes * (tensors[0].bytes or 0) / NORM_SHARE)
    return step.shorter(rows.tolist(), min(ns / max(step.ns(rows), 1.0), 1.0))
