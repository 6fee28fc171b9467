"""The kernels of a trace as a multiset, written as sorted text that `git diff` reads well, and what
changed between two.

    # foretrace kernels, sm90, torch 2.11, per step
    2  nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT
    1  triton_poi_fused__unsafe_view_gelu_mul

Names are normalised: no return type, no parameter list, no numbers that a compiler counts, no
namespaces of ATen. On a CPU the lines are the ops that compute, and Inductor's C++ kernels. Times
never go into a snapshot.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from foretrace import families
from foretrace.guess.cpu import working_ops
from foretrace.guess.scope import Scope
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import Work, bare
from foretrace.model.trace import Trace

_COMPILED = re.compile(
    r"(?:graph_\d+_)?((?:cpp|triton_[a-z]{3})_fused\w*?)(?:_\d+)?(?:0d[\dcde]*)?"
)
_NAMESPACES = re.compile(
    r"\b(?:at::native|at|c10|std)::|\(anonymous namespace\)::|^void\s+|\[clone [^\]]*\]"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Kernels that came, went, or changed their number or name: `changed` pairs a line that was
    with one that is.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def lines(self) -> list[str]:
        return [
            *(f"removed  {line}" for line in self.removed),
            *(f"added    {line}" for line in self.added),
            *(line for was, now in self.changed for line in (f"changed  {was}", f"      to {now}")),
        ]


def kernels(trace: Trace) -> Counter[str]:
    """Kernels, copies and fills by normalised name: of one step when all steps have the same, else
    of all of them.

    `Unknown` when the GPU's side was not recorded.
    """
    work = Work(trace)
    views = Scope("steps" if trace.has("steps") else "trace").views(work)
    bags = [_bag(view) for view in views]
    return bags[0] if all(bag == bags[0] for bag in bags) else sum(bags, Counter())


def _bag(view: View) -> Counter[str]:
    trace = view.work.trace
    if trace.has("gpu"):
        return Counter(normal(view.work.case(row).name) for row in view.rows.tolist())
    if trace.host.is_call.any():
        raise Unknown(
            "the trace has launches and no GPU events: the profiler could not record the GPU"
        )
    return Counter(normal(trace.host.names[trace.host.name[event]]) for event in working_ops(view))


def normal(name: str) -> str:
    """A name without what changes from build to build and from graph to graph."""
    compiled = _COMPILED.fullmatch(name)
    if compiled:
        return compiled[1]
    return re.sub(r"\s+", " ", _NAMESPACES.sub("", _without_parameters(name))).strip() or name


def _without_parameters(name: str) -> str:
    """Cuts the last parenthesis that stands outside of all angle brackets, when the name ends with
    it.
    """
    if not name.endswith(")") or "::" not in name:
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place] or name
    return name


def to_text(bag: Mapping[str, int], title: str) -> str:
    """Sorted by name, so that a change of number is one changed line."""
    lines = [f"{count}  {name}" for name, count in sorted(bag.items())]
    return "\n".join([f"# foretrace kernels, {title}", *lines]) + "\n"


def from_text(text: str) -> Counter[str]:
    bag: Counter[str] = Counter()
    for line in text.splitlines():
        count, _, name = line.strip().partition("  ")
        if name and count.isascii() and count.isdigit():
            bag[name.strip()] += int(count)
    return bag


def difference(was: Mapping[str, int], now: Mapping[str, int]) -> Difference:
    """A name whose number changed is changed; so are a removed and an added kernel of the same role
    and number.
    """
    removed = {name: count for name, count in sorted(was.items()) if name not in now}
    added = {name: count for name, count in sorted(now.items()) if name not in was}
    changed = [
        (f"{count} x {name}", f"{now[name]} x {name}")
        for name, count in sorted(was.items())
        if name in now and now[name] != count
    ]
    for old, count in list(removed.items()):
        new = next(
            (name for name, number in added.items() if number == count and _alike(old, name)), None
        )
        if new is not None:
            changed.append((f"{removed.pop(old)} x {old}", f"{added.pop(new)} x {new}"))
    return Difference(
        tuple(f"{count} x {name}" for name, count in added.items()),
        tuple(f"{count} x {name}" for name, count in removed.items()),
        tuple(changed),
    )


def _alike(one: str, other: str) -> bool:
    """Two names of one family and role: the library chose another kernel for the same work."""
    first, second = families.decode(one), families.decode(other)
    same_op = bare(str(first.get("op"))) == bare(str(second.get("op")))
    return first.family == second.family != "unknown" and first.role == second.role and same_op
