"""Which ops the compiler's records give for each distinct kernel: they outrank its name.

A name lists ops that the fused nodes came from, whoever computes them. The records map nodes to the
ops of the program. A word of the name that is an op of the program, and not one of this kernel's,
is somebody else's work; any other word (`native_layer_norm` for `layer_norm`) stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.analyze.guess.doing import OP_DOES
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.compiler import CompiledLaunch


@dataclass(frozen=True, slots=True)
class LaunchOps:
    """What one launch does, what it does in part, and all ops of its graph."""

    does: frozenset[str]
    begins: frozenset[str]
    others: frozenset[str]


def recorded(trace: Trace, number: Ints) -> dict[int, list[LaunchOps]]:
    """For each distinct operation (`number` of every row of `trace.gpu`) what its launches do."""
    found: dict[int, dict[int, LaunchOps]] = {}
    if trace.compiled:
        for event, place in zip(trace.gpu.id.tolist(), number.tolist(), strict=True):
            launch = trace.compiled.get(event)
            if launch is not None and id(launch.call) not in found.setdefault(place, {}):
                found[place][id(launch.call)] = of_launch(launch)
    known = {place: list(each.values()) for place, each in found.items()}
    return {place: each for place, each in known.items() if all(ops.does for ops in each)}


def of_launch(launch: CompiledLaunch) -> LaunchOps:
    """The ops of one launch, with what they stand for."""
    from foretrace.model.compiled.program_ops import begun, dynamo_ops, performed

    does = performed(launch)
    # a library's kernel may do more than its op says: the product of a linear layer adds the bias
    extern = launch.call.extern
    others = frozenset[str]() if extern else frozenset(dynamo_ops(launch.compilation).values())
    return LaunchOps(_with_parts(does), begun(launch), others)


def _with_parts(ops: frozenset[str]) -> frozenset[str]:
    return ops | {word for op in ops for word in OP_DOES.get(op, ())}


def settled(
    does: frozenset[str], may_do: frozenset[str], launches: list[LaunchOps]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a kernel does and may do, by its name and by the records of its launches."""
    sure = frozenset.intersection(*(ops.does for ops in launches))
    some = frozenset().union(*(ops.does | ops.begins for ops in launches))
    others = frozenset().union(*(ops.others for ops in launches))
    return sure | (does - others - some), (some - sure) | (may_do - others - some - sure)
