"""The name of a group with what its kernels add: the M of matmuls, the kind of attention."""

from __future__ import annotations

from foretrace.model.order import Case
from foretrace.show.overview.group_work import GroupWork

# One M names the matmuls from this share of their time on. In the recorded decoding steps the
# batch size is the M of more than 90% of it.
MAIN = 0.8
PART = 0.1  # of a group's time: an implementation below is not named
_STEP = "Optimizer.step#"
# Attention kernels by family; a family that is not here is not named.
_ATTENTION = {
    "flash_attention_2": "FA2",
    "flash_attention_3": "FA3",
    "flash_attention_4_cute": "FA4",
    "cudnn_sdpa": "cuDNN",
    "cudnn_sdpa_aux": "cuDNN",
    "mem_efficient_attention": "mem-efficient",
    "inductor_triton": "Triton",
    "user_triton": "Triton",
}


def shown_name(work: GroupWork) -> str:
    """`GEMM, M=1`, `attention (FA2)`, `optimizer (AdamW, fused)`, or the plain name."""
    if work.name == "GEMM":
        return _matmuls(work)
    if work.name == "attention":
        return _with_parts(work, [_attention(each.case) for each in work.cases])
    if work.name == "optimizer":
        return _optimizer(work)
    return work.name


def _matmuls(work: GroupWork) -> str:
    times: dict[int, int] = {}
    for each in work.cases:
        times[_m(each.case)] = times.get(_m(each.case), 0) + each.ns
    most = max(times, key=lambda m: times[m], default=0)
    main = most > 0 and times[most] >= MAIN * sum(times.values())
    return f"{work.name}, M={most}" if main else work.name


def _m(case: Case) -> int:
    """The rows of the first operand of `mm` and `addmm`; 0 for other ops and unrecorded sizes."""
    place = {"aten::mm": 0, "aten::addmm": 1, "aten::_addmm_activation": 1}.get(case.op)
    tensor = case.call.tensor(place) if case.call and place is not None else None
    return tensor.dims[0] if tensor and len(tensor.dims) == 2 else 0


def _attention(case: Case) -> str:
    """Matmuls and a softmax of their own: `by hand`, or the math of PyTorch."""
    if case.role in ("gemm", "gemv", "softmax"):
        return "unfused"
    return _ATTENTION.get(case.id.family, "") if case.role == "attention" else ""


def _optimizer(work: GroupWork) -> str:
    """The class from the region around its step; how it runs from the names of its kernels."""
    regions = {span.name for span in work.trace.spans.regions if span.name.startswith(_STEP)}
    classes = {name.removeprefix(_STEP).partition(".")[0] for name in regions}
    kinds = [_kind(each.case) for each in work.cases]
    return _with_parts(work, kinds, classes.pop() if len(classes) == 1 else "")


def _kind(case: Case) -> str:
    if case.id.short.startswith("fused"):
        return "fused"
    return "foreach" if "foreach" in case.id.short else "for loop"


def _with_parts(work: GroupWork, parts: list[str], first: str = "") -> str:
    """The parts that take a tenth of the time and more, the most first."""
    times: dict[str, int] = {}
    for part, each in zip(parts, work.cases, strict=True):
        times[part] = times.get(part, 0) + each.ns
    main = [part for part in times if part and times[part] >= PART * sum(times.values())]
    main.sort(key=lambda part: -times[part])
    words = [word for word in (first, *main) if word]
    return f"{work.name} ({', '.join(words)})" if words else work.name
