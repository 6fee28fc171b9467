"""The name of each GPU operation's work, as the model's author would say it."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.trace import Trace

ROLES = {"gemm": "GEMM", "gemv": "GEMM", "conv": "convolution", "comms": "collective"}
OWN = ("attention", "normalization", "softmax", "optimizer")  # roles that name the work


def work_groups(trace: Trace) -> Sequence[str]:
    """One name for each row of `trace.gpu`."""
    found: Sequence[str] | None = getattr(trace, "work_groups", None)
    return found if found is not None else _by_op(trace)


def _by_op(trace: Trace) -> list[str]:
    """By role, else by the op, else by the name."""
    frames = (trace.kernels.select("id", "role", "op_name", "short"),)
    kernels = {row[0]: row[1:] for frame in frames for row in frame.iter_rows()}
    names, host = [], trace.host
    for event in trace.gpu.id.tolist():
        role, op, short = kernels.get(event, ("", None, ""))
        if event not in kernels:
            names.append(" ".join(host.names[host.name[event]].split()[:2]))
        elif role in ROLES or role in OWN:
            names.append(ROLES.get(role, role))
        else:
            names.append((op or short).rpartition("::")[2].strip("_"))
    return names
