"""Whether several operations run as one kernel.

They are fused when one kernel does all of them: Inductor's names list the ops that were merged,
hand-written kernels say it in their own names (`geglu` is gelu and mul), and a product that adds
its bias does both. Not fused means that each is done by some kernel and no kernel does all. On a
CPU trace Inductor's C++ kernels are judged the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.guess.cpu import cpu_does, cpu_kernels, runs_on_cpu
from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.select import Found, label
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import bare


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Kernels of a view, what each does, and the name of one that nothing is known of."""

    found: Found
    does: dict[int, frozenset[str]]
    opaque: str = ""

    def names(self, view: View, items: list[int]) -> str:
        return ", ".join(dict.fromkeys(label(view, self.found, item) for item in items))


def measure(ask: Ask) -> Reading:
    wanted = [_word(thing) for thing in ask.args["parts"]]
    if not all(wanted):
        raise Unknown("fusion is about ops: say for example `gelu and mul are fused`")
    return for_each(ask, lambda view: _fused(view, set(wanted), "not" not in ask.args))


# Roles that are operations, by the op that stands for them.
_ROLE_WORDS = {
    "gemm": "matmul",
    "softmax": "softmax",
    "conv": "convolution",
    "attention": "scaled_dot_product_attention",
}


def _word(thing: Thing) -> str:
    roles = [_ROLE_WORDS.get(trait.value, "") for trait in thing.traits if trait.kind == "role"]
    if thing.word or roles:
        return thing.word or roles[0]
    return bare(thing.name) if thing.kind == "op" and "*" not in thing.name else ""


def _fused(view: View, wanted: set[str], expected: bool) -> Reading:
    kernels = _on_cpu(view) if runs_on_cpu(view.work) else _on_gpu(view)
    whole = [item for item, does in kernels.does.items() if wanted <= does]
    some = [item for item, does in kernels.does.items() if wanted & does]
    missing = sorted(wanted - {word for item in some for word in kernels.does[item]})
    if not whole:
        view.need_whole()
    if not whole and kernels.opaque:
        raise Unknown(f"what {kernels.opaque} does cannot be told from its name")
    if whole:
        measured = f"one kernel: {kernels.names(view, whole)}"
    elif missing:
        measured = f"no kernel does {' or '.join(missing)}"
    else:
        measured = f"separate kernels: {kernels.names(view, some)}"
    verdict = "hit" if not missing and bool(whole) is expected else "miss"
    items = whole or some or kernels.found.sure
    return Reading(
        verdict,
        measured,
        rows=items if kernels.found.on_gpu else [],
        events=[] if kernels.found.on_gpu else items,
    )


def _on_gpu(view: View) -> _Kernels:
    view.need_gpu()
    if view.lost:
        raise Unknown("some launches left no GPU event: what ran there is not known")
    rows = [row for row in view.rows.tolist() if view.work.case(row).kind == "kernel"]
    opaque = next((view.work.case(row).ident.short for row in rows if _opaque(view, row)), "")
    return _Kernels(Found(True, rows, []), {row: view.work.case(row).does for row in rows}, opaque)


def _opaque(view: View, row: int) -> bool:
    """A kernel whose name no family knows, or a hand-written one that nothing is known of: it may
    do anything.
    """
    case = view.work.case(row)
    return case.ident.family == "unknown" or (
        "triton" in case.ident.family and not case.does - {"triton"}
    )


def _on_cpu(view: View) -> _Kernels:
    host = view.work.trace.host
    events = cpu_kernels(view)
    return _Kernels(
        Found(False, events, []),
        {event: cpu_does(host.names[host.name[event]]) for event in events},
    )


KIND = Kind(
    name="fusion",
    order=40,
    patterns=(
        "{parts:parts} are|is [not] fused",
        "{parts:parts} are|is [not] fused into one kernel",
    ),
    measure=measure,
    expected=lambda args: "not fused" if "not" in args else "fused",
    examples={
        "gelu and mul are fused": "one kernel does both",
        "in mlp_fwd: gelu and mul are not fused": "each has a kernel of its own",
        "matmul and add are fused": "the product adds the bias",
    },
)
