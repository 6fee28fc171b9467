"""The op that PyTorch has for a sequence of ops.

What it looks for: norms, activations, softmax and dropout written out in eager mode, as a sequence
of ops that `SEQUENCES` lists with the call that does the same.

What must hold: the ops follow each other on one thread, casts between them left out, and their
tensors have the sizes that the sequence needs. `mul` takes one tensor of full size, `mul:f` two,
`mul:s` a smaller one beside it (a mean, a weight), and `mul~` smaller ones only. A residual is of
full size, so it is no bias. Code inside an op or in the backward pass is PyTorch's own.

What changes: one kernel takes the place of the ops, and one that of the nodes of the backward pass
that they made. Their times are those of so many passes over the input at the card's bandwidth as
on an H200 (torch 2.11, bf16, 1,024 to 50,304 columns).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.base.units import times_text
from foretrace.look.fixes._changes import STARTING_NS, joined
from foretrace.look.fixes._cpu import dense
from foretrace.look.fixes._host import tops
from foretrace.look.fixes._step import Ints, Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import OpCall, Tensor

RISK = "a fused kernel rounds less often: compare an output"
SPREAD = (1.0, 0.7, 1.6)  # of the new GPU times: as expected, at best, at worst
CASTS = frozenset({"to", "_to_copy", "float", "type_as"})
SAME = {"square": "pow", "amax": "max", "true_divide": "div", "divide": "div", "clamp_min": "clamp"}
SAME |= {"multiply": "mul", "subtract": "sub", "rsub": "sub"}


class FusedOp(Struct, frozen=True):
    """What to call, the passes of both directions over the input, and the ops that it replaces."""

    call: str
    forward: float
    backward: float
    ops: str

    def match(self, text: str) -> int:
        """How much of these words the sequence is."""
        found = re.match(f"(?:{self.ops}) ", text)
        return found.end() if found else 0


_ROOT = "(sqrt~|rsqrt~|pow~|std)"
_CENTRED = "(mean |var |sub:s |pow |mul:f |mul:s |add~ |div~ |clamp~ |reciprocal~ )*?"
_SCALED = "(mul:s|div:s)( (add~ )?mul:s)?( add:s)?"
_ROWS = rf"""
F.layer_norm/batch_norm 6 16 (?=(\S+ )+?sub:s )(mean|var) {_CENTRED}{_ROOT} {_CENTRED}{_SCALED}
F.rms_norm 3.5 14 (pow|mul:f) mean (add~ |clamp~ )?{_ROOT} (reciprocal~ )?{_SCALED}
F.gelu(approximate="tanh") 3 4 (mul )?(pow|mul:f mul:f) mul add:f mul tanh (mul )?add mul:f( mul)?
F.gelu 3 4 (mul )?(div|mul) erf add mul:f( mul)?
torch.softmax 3.5 4.5 (max sub:s )?exp sum div:s
F.log_softmax 3.5 5 softmax log|logsumexp sub:s|(max sub:s )?exp sum log~ (add~ )?sub:s
F.dropout 3 3 (rand_like|bernoulli) (gt|lt|ge|le) (div )?mul:f( div| mul)?
F.normalize 3.5 8 pow sum sqrt~ (add~ |clamp~ )?div:s
F.mish 3 4 softplus tanh mul:f
F.logsigmoid 3 4 sigmoid log
F.softplus 3 4 exp add log|exp log1p
"""
SEQUENCES = tuple(
    FusedOp(call, float(forward), float(backward), ops)
    for call, forward, backward, ops in (row.split(" ", 3) for row in _ROWS.split("\n") if row)
)
# The ops that a sequence begins with: nothing else is read closer.
BEGINS = frozenset({"mean", "var", "pow", "mul", "div", "max", "exp", "softmax", "logsumexp"})
BEGINS |= {"rand_like", "bernoulli", "softplus", "sigmoid"}
# What goes into a loss keeps the type that the ops have: the cast before it stays.
LOSSES = frozenset({"F.log_softmax", "F.logsigmoid"})


class Match(Struct, frozen=True):
    """The ops of one sequence, and the tensor that they begin with."""

    sequence: FusedOp
    ops: Ints
    tensor: Tensor


@fix("Use the op that does all of it", "gpu shapes")
def _find(step: Step) -> Proposals:
    found = list(_matches(step))
    for sequence in SEQUENCES:
        mine = [match for match in found if match.sequence is sequence]
        if not mine or step.device is None:
            continue
        parts = [part for match in mine for part in _parts(step, match)]
        usual, best, worst = (
            joined(
                step.one_for_many(events, rows, STARTING_NS + spread * ns)
                for events, rows, ns in parts
            )
            for spread in SPREAD
        )
        names = [step.name(op).removeprefix("aten::") for op in mine[0].ops.tolist()]
        words = [name for name in names if name not in CASTS]
        first = ", ".join(words[:3]) + (", ..." if len(words) > 3 else "")
        order = f"call {sequence.call} instead of {len(names)} ops"
        why = f"{first} written out {times_text(len(mine))} per step"
        events = shown(np.concatenate([match.ops for match in mine]))
        yield Proposal(order, why, usual, best, worst, risk=RISK, events=events)


def _matches(step: Step) -> Iterator[Match]:
    """The sequences of a step, the longest first where two begin with one op."""
    ops = tops(step)
    above = step.trace.host.nearest_op(step.trace.gpu.launch[step.rows])
    ops = ops[np.isin(ops, step.callers(above[above >= 0]))]
    calls = [step.call(op) for op in ops.tolist()]
    names = [_name(call) if call.dims else "" for call in calls]
    plain = [at for at, name in enumerate(names) if name and name not in CASTS]
    sizes = {at: [each.elements for each in dense(calls[at])] for at in plain}
    place = 0
    while place < len(plain):
        window = plain[place : place + 14]  # ops in a sequence, without casts
        tensor = _largest(calls[window[0]]) if names[window[0]] in BEGINS else None
        found = _first([_word(names[at], sizes[at], tensor) for at in window]) if tensor else None
        if found is None or tensor is None:
            place += 1
            continue
        sequence, count = found
        begin, end = window[0], window[count - 1]
        if sequence.call not in LOSSES and _casts(calls, begin - 1, tensor):
            begin, end = begin - 1, end + _casts(calls, end + 1, tensor)
        yield Match(sequence, ops[begin : end + 1], _largest(calls[begin]) or tensor)
        place += count


def _first(words: list[str]) -> tuple[FusedOp, int] | None:
    """The longest sequence that these words begin with, and how many of them it has."""
    text = "".join(f"{word} " for word in words)
    sequence = max(SEQUENCES, key=lambda each: each.match(text))
    count = text[: sequence.match(text)].count(" ")
    return (sequence, count) if count else None


def _casts(calls: list[OpCall], at: int, tensor: Tensor) -> bool:
    """Whether the op at this place makes this tensor of another type, or another type of it."""
    casts = 0 <= at < len(calls) and _name(calls[at]) in CASTS
    source = _largest(calls[at]) if casts else None
    return source is not None and source.dims == tensor.dims


def _name(call: OpCall) -> str:
    name = call.name.removeprefix("aten::").rstrip("_")
    return SAME.get(name, name)


def _largest(call: OpCall) -> Tensor | None:
    return max(call.every_tensor(), key=lambda each: each.elements, default=None)


def _word(name: str, sizes: list[int], full: Tensor) -> str:
    """An op with the sizes of its tensors, in the words of `SEQUENCES`."""
    most = max(sizes, default=0)
    if most > full.elements or not most:
        return "?"
    if most < full.elements:
        return f"{name}~"
    if min(sizes) < most:
        return f"{name}:s"
    return f"{name}:f" if len(sizes) > 1 else name


def _parts(step: Step, match: Match) -> Iterator[tuple[Ints, Ints, float]]:
    """The ops and their backward nodes, each with its work and the time to move it all at once."""
    moved = step.move_ns(match.tensor.bytes or 0)
    both = (match.ops, match.sequence.forward), (step.backward(match.ops), match.sequence.backward)
    for events, passes in both:
        if len(rows := step.below(events)):
            yield events, rows, passes * moved
