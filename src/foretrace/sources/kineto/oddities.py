"""What is odd about the events of a trace as a whole, for the ledger."""

from __future__ import annotations

import numpy as np

from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import KIND, NONE
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.joined import Joined, as_numpy
from foretrace.sources.kineto.layout import KNOWN_CATEGORIES, KNOWN_PHASES


def note_oddities(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    counts = (
        np.bincount(joined.site, minlength=len(joined.sites))
        if len(joined.site)
        else np.zeros(len(joined.sites), int)
    )
    phases = categories = 0
    for (phase, category, _, _), count in zip(joined.sites, counts.tolist(), strict=True):
        if phase not in KNOWN_PHASES:
            phases += count
        elif phase == "X" and category.lower() not in KNOWN_CATEGORIES:
            categories += count
    ledger.note("unknown_phase", phases)
    ledger.note("unknown_category", categories)
    ledger.note("unfinished_event", joined.unfinished)
    ledger.note("arg_type", sum(part.coerced for part in parts))
    _note_sequences(joined, parts, ledger)
    if len(joined.namespaces) > 1:
        ledger.note(
            "merged_trace",
            text=(
                f"{len(joined.namespaces)} ranks were merged into this file: "
                f"{', '.join(joined.namespaces[:8])}"
            ),
        )
    replaced = [index for index, name in enumerate(joined.names) if name == "unknown"]
    if replaced:
        ledger.note("name_replaced", int((joined.name[joined.ranged] == replaced[0]).sum()))
    _note_orphans(joined, ledger)


def _note_sequences(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    """Two backward evaluations with one sequence number cannot both belong to that forward op."""
    evaluates = np.array(
        [name.startswith("autograd::engine::evaluate_function") for name in joined.names], np.bool_
    )
    found = []
    base = 0
    for part in parts:
        side = part.sides["autograd"]
        rows = as_numpy(side["event"], np.int64) + base
        mine = evaluates[joined.name[rows]] if len(rows) else np.zeros(0, np.bool_)
        found.append(
            np.stack(
                (
                    as_numpy(side["sequence"], np.int64)[mine],
                    as_numpy(side["forward_thread"], np.int64)[mine],
                )
            )
        )
        base += len(part)
    pairs = np.concatenate(found, 1) if found else np.empty((2, 0), np.int64)
    order = np.lexsort(pairs)
    repeats = (pairs[:, order[1:]] == pairs[:, order[:-1]]).all(0)
    ledger.note("seq_duplicate", int(repeats.sum()))


def _note_orphans(joined: Joined, ledger: LedgerBuilder) -> None:
    """Arrows from launch to kernel with one end only: normal in Kineto, and nothing depends on
    them.
    """
    flow = joined.kind == KIND["flow"]
    if not flow.any():
        return
    links = np.array([category.lower() not in ("fwdbwd",) for _, category, _, _ in joined.sites])
    starts = np.array([phase == "s" for phase, _, _, _ in joined.sites])
    linked = flow & links[joined.site] & (joined.correlation != NONE)
    started = starts[joined.site]
    ledger.note(
        "flow_orphan",
        len(
            np.setxor1d(joined.correlation[linked & started], joined.correlation[linked & ~started])
        ),
    )
