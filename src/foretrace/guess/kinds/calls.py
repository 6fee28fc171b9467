"""How kernels are launched: by which runtime or driver call, and after which other call of the same
op.
"""

from __future__ import annotations

from foretrace.guess.kinds.fields import judged, kernels
from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.scope import named
from foretrace.guess.view import Unknown, View


def measure(ask: Ask) -> Reading:
    if not ask.views[0].work.trace.host.is_call.any():
        raise Unknown(
            "no runtime or driver calls in this trace: they are recorded with the GPU activity"
        )
    return for_each(ask, lambda view: _judge(view, ask))


def _judge(view: View, ask: Ask) -> Reading:
    found = kernels(view, ask.args["what"])
    answer, shown = (_launched_by, _launch) if "launched" in ask.args else (_preceded_by, _before)
    answers = [answer(view, row, ask.args["call"]) for row in found.sure]
    return judged(
        found,
        ask.args["what"],
        ask.args["quantifier"],
        answers,
        [shown(view, row) for row in found.sure],
    )


def _launch(view: View, row: int) -> str:
    return view.work.launch_name(row) or "no launch recorded"


def _launched_by(view: View, row: int, call: str) -> bool | None:
    name = view.work.launch_name(row)
    return named(call, name) if name else None


def _preceded_by(view: View, row: int, call: str) -> bool | None:
    """Whether the op that launched the kernel made this call before the launch."""
    names = _earlier(view, row)
    return (
        None
        if names is None
        else any(named(call, name) for name in names) or (None if view.gap else False)
    )


def _earlier(view: View, row: int) -> list[str] | None:
    trace = view.work.trace
    host, launch, op = trace.host, int(trace.gpu.launch[row]), int(trace.gpu.op[row])
    if launch < 0 or op < 0:
        return None
    inside = View(
        view.work, "", view.rows, int(host.start[op]), int(host.start[launch]), int(host.track[op])
    )
    return [host.names[host.name[event]] for event in inside.events(host.is_call).tolist()]


def _before(view: View, row: int) -> str:
    names = _earlier(view, row)
    return "no launch recorded" if names is None else " and ".join(names) or "nothing"


KIND = Kind(
    name="calls",
    order=25,
    patterns=(
        "{quantifier:quantifier} {what:things} is|are launched by {call:name}",
        "{quantifier:quantifier} {what:things} is|are preceded by {call:name}",
    ),
    measure=measure,
    examples={
        "every gemm is launched by cuLaunchKernelEx": "the call that put it on the GPU",
        "every aten pointwise is launched by cudaLaunchKernel": "ATen's own kernels",
        "every gemm is preceded by "
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor": "in the same op, before the launch",
        "no pointwise is preceded by cudaOccupancy*": "`*` stands for anything",
    },
)
