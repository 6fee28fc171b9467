"""Print every N steps.

What it looks for: tensors that a CPU turns into text in a step (`print`, an f-string, logging).
PyTorch selects the finite values other than zero to choose a format (`isfinite`, `masked_select`)
and then reads values one by one.

What must hold: both ops are there, in this order, on tensors of floats. Text of integers, and text
that Python makes of numbers, leaves no such ops: that time is `python_time`'s.

What changes: these ops go, and the Python code among them. In one of N steps they remain.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._host import LONG_NS, tops
from foretrace.look.fixes._step import Proposals, Step, fix

CHOOSES, SELECTS = "aten::isfinite", "aten::masked_select"
_FORMATTING = """
isfinite ne __and__ masked_select reshape view abs to min max unbind select slice ceil is_nonzero
item div gt lt cat stack detach resolve_conj resolve_neg
"""
FORMATTING = frozenset(f"aten::{name}" for name in _FORMATTING.split())
READS = ("aten::item", "aten::is_nonzero")
ON_CPU = (0.9, 1.0, 0.6)  # of the time goes


@fix("Print every N steps", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    if found := printed(step):
        names = [step.name(op) for op in found]
        tensors, reads = names.count(SELECTS), sum(name in READS for name in names)
        count, values = plural(tensors, "tensor"), plural(reads, "value")
        why = f"text of {count} per step (print, f-string, log): {values} read alone"
        stretches = step.together(found, LONG_NS)
        yield step.proposal("print every N steps", why, found, ON_CPU, stretches=stretches)


def printed(step: Step) -> list[int]:
    """The ops that turn tensors into text, in order of time."""
    ops = tops(step).tolist()
    names, found, inside = [step.name(op) for op in ops], list[int](), False
    for at, (op, name) in enumerate(zip(ops, names, strict=True)):
        begins = name == CHOOSES and SELECTS in names[at : at + 4]  # ops between the two
        inside = begins or (inside and name in FORMATTING)
        found += [op] * inside
    return found
