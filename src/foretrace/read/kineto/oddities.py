"""What is odd about the events of a trace as a whole, for the ledger."""

from __future__ import annotations

import numpy as np

from foretrace.read.kineto.columns import Columns
from foretrace.read.kineto.joined import Joined, as_numpy, joined_arrays
from foretrace.read.kineto.layout import KNOWN_CATEGORIES, KNOWN_PHASES
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import KIND, NONE

_LEGACY = "CPU functions"  # the process of every range that torch.autograd.profiler wrote by itself


def note_oddities(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    """Note unknown and unfinished events, repeated ids, merged ranks and lone arrows."""
    counts = np.bincount(joined.site, minlength=len(joined.sites))
    phases = categories = 0
    for (phase, category, _, _), count in zip(joined.sites, counts.tolist(), strict=True):
        if phase not in KNOWN_PHASES:
            phases += count
        elif phase == "X" and category.lower() not in KNOWN_CATEGORIES:
            categories += count
    ledger.note("legacy_format", any(pid == _LEGACY for _, _, pid, _ in joined.sites))
    ledger.note("unknown_phase", phases)
    ledger.note("unknown_category", categories)
    ledger.note("unfinished_event", joined.unfinished)
    ledger.note("arg_type", sum(part.coerced for part in parts))
    _note_sequences(joined, parts, ledger)
    if len(joined.namespaces) > 1:
        shown = ", ".join(joined.namespaces[:8])
        text = f"{len(joined.namespaces)} ranks were merged into this file: {shown}"
        ledger.note("merged_trace", text=text)
    if "unknown" in joined.names:
        replaced = joined.names.index("unknown")
        ledger.note("name_replaced", int((joined.name[joined.ranged] == replaced).sum()))
    _note_orphans(joined, ledger)


def _note_sequences(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    """Two backward evaluations with one sequence number cannot both belong to that forward op."""
    evaluates = np.array(
        [name.startswith("autograd::engine::evaluate_function") for name in joined.names], np.bool_
    )
    sides = [part.sides["autograd"] for part in parts]
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    rows = np.concatenate(
        [
            as_numpy(side["event"], np.int64) + start
            for side, start in zip(sides, starts, strict=False)
        ]
    )
    mine = evaluates[joined.name[rows]] if len(rows) else np.zeros(0, np.bool_)
    columns = ("sequence", "forward_thread")
    numbers = [joined_arrays([side[name] for side in sides])[mine] for name in columns]
    first = {pid: at for at, (pid, _) in enumerate(joined.tracks)}
    process = np.array([first[pid] for pid, _ in joined.tracks], np.int64)
    keys = np.stack([*numbers, process[joined.track[rows[mine]]]])  # processes count on their own
    order = np.lexsort(keys)
    repeats = (keys[:, order[1:]] == keys[:, order[:-1]]).all(0)
    ledger.note("seq_duplicate", int(repeats.sum()))


def _note_orphans(joined: Joined, ledger: LedgerBuilder) -> None:
    """Arrows from launch to kernel with one end only: normal in Kineto; nothing depends on them."""
    flow = joined.kind == KIND["flow"]
    if not flow.any():
        return
    links = np.array([category.lower() != "fwdbwd" for _, category, _, _ in joined.sites])
    starts = np.array([phase == "s" for phase, _, _, _ in joined.sites])
    linked = flow & links[joined.site] & (joined.correlation != NONE)
    # sorted, an id that both sides have stands beside itself
    sides = (starts[joined.site], ~starts[joined.site])
    ends = [np.sort(joined.correlation[linked & side]) for side in sides]
    once = [mine[np.diff(mine, prepend=NONE) != 0] for mine in ends]
    both = np.sort(np.concatenate(once))
    ledger.note("flow_orphan", len(both) - 2 * int((both[1:] == both[:-1]).sum()))
