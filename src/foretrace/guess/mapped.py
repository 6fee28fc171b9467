"""Which ops the compiler's records give for each distinct kernel: they outrank its name.

A name lists ops that the fused nodes came from, whoever computes them. The records map nodes to the
ops of the program. A word of the name that is an op of the program, and not one of this kernel's,
is somebody else's work; any other word (`native_layer_norm` for `layer_norm`) stays.
"""

from __future__ import annotations

from foretrace.guess.doing import OP_DOES
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.compiler import Compilation, CompiledLaunch

Recorded = tuple[frozenset[str], frozenset[str]]  # ops of a kernel, and of its whole graph


def recorded(trace: Trace, number: Ints) -> dict[int, list[Recorded]]:
    """For each distinct operation (`number` of every row of `trace.gpu`) what its launches do."""
    found: dict[int, dict[int, Recorded]] = {}
    if trace.compiled:
        for event, place in zip(trace.gpu.id.tolist(), number.tolist(), strict=True):
            launch = trace.compiled.get(event)
            if launch is not None and id(launch.call) not in found.setdefault(place, {}):
                found[place][id(launch.call)] = of_launch(launch)
    known = {place: list(each.values()) for place, each in found.items()}
    return {place: each for place, each in known.items() if all(own for own, _ in each)}


def of_launch(launch: CompiledLaunch) -> Recorded:
    """The ops of one launch with what they stand for, and all ops of a generated one's graph."""
    from foretrace.why.origins import performed

    own = performed(launch)
    # a library's kernel may do more than its op says: the product of a linear layer adds the bias
    words = frozenset[str]() if launch.call.extern else _words(launch.compilation)
    return own | {word for op in own for word in OP_DOES.get(op, ())}, words


def _words(compilation: Compilation) -> frozenset[str]:
    from foretrace.why.origins import op_word

    dynamo = (graph for graph in compilation.graphs if graph.stage == "dynamo")
    return frozenset(op_word(node.target) for graph in dynamo for node in graph.nodes)


def settled(
    does: frozenset[str], may_do: frozenset[str], launches: list[Recorded]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a kernel does and may do, by its name and by the records of its launches."""
    sets = [own for own, _ in launches]
    sure, some = frozenset.intersection(*sets), frozenset.union(*sets)
    others = frozenset.union(*(words for _, words in launches))
    return sure | (does - others), (some - sure) | (may_do - others - some)
