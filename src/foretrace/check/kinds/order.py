"""Which kernels are launched: their order, whether they are the same, and on which streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.check.grammar import Slot, list_of
from foretrace.check.kinds import (
    Measurement,
    Miss,
    Query,
    comparison,
    from_selection,
    judge_all,
    known,
    per_window,
    prediction,
)
from foretrace.check.selection import certain, label, launch_time, select
from foretrace.check.windows import Unknown, Window
from foretrace.check.words import (
    COPIES,
    HEADS,
    LINEAR_WORDS,
    ParseFailure,
    Selector,
    Token,
    key_at,
    read_selector,
    text_at,
)
from foretrace.trace.gpu import Gpu
from foretrace.trace.intervals import Ints, split_by


def _sure(window: Window, selector: Selector) -> list[int]:
    if not selector.on_gpu:
        raise Unknown(
            f"`{selector.text}` is not a kernel: a list compares kernels; use `before` for host "
            "ops and calls"
        )
    found = select(window, selector)
    if found.maybe:
        raise Unknown(found.why(selector))
    return found.sure


def _before(window: Window, first: Selector, second: Selector) -> Measurement:
    found = [select(window, selector) for selector in (first, second)]
    for selector, there in zip((first, second), found, strict=True):
        if there.gap or (there.unclear and not there.sure):
            raise Unknown(there.why(selector))
        if not there.sure:
            return Measurement("miss", f"there is no {selector.text} in {window.label}")
    times = [launch_time(window, there, there.sure[0]) for there in found]
    earlier = times[0] < times[1]
    return Measurement(
        "hit" if earlier else "miss",
        f"{first.text} comes {'first' if earlier else 'later'}",
        rows=[there.sure[0] for there in found if there.on_gpu],
        events=[there.sure[0] for there in found if not there.on_gpu],
    )


def _link(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """A selector, or a word that stands for a linear layer (`gate`, `down`): a matmul."""
    if key_at(tokens, place) in LINEAR_WORDS:
        return replace(HEADS["gemm"], text=text_at(tokens, place)), place + 1
    try:
        return read_selector(tokens, place)
    except ParseFailure as failure:
        raise ParseFailure(failure.place, [*failure.wanted, *LINEAR_WORDS]) from None


@known
def _evaluation_order(miss: Miss) -> bool:
    """The right kernels, each as often as predicted, in another order."""
    window, wanted = miss.found.window, miss.query.args.get("sequence")
    if window is None or not wanted or len(wanted) != len(miss.found.rows):
        return False
    left: list[Selector] = list(wanted)
    for row in miss.found.rows:
        fitting = next((one for one in left if row in select(window, one).sure), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return any(selector.word for selector in wanted)


@prediction(
    "order",
    90,
    "{first:selector} before {second:selector}",
    "{first:selector} comes before {second:selector}",
    "{sequence:sequence}",
    slots={"sequence": Slot("two or more selectors between commas", list_of(_link, least=2))},
    reasons=(_evaluation_order,),
)
@per_window
def _order(window: Window, query: Query) -> Measurement:
    """The order of launches: a list between commas names all kernels of the scope, one after the
    other.

    Without a scope the list can repeat, once per step. Each entry is a role (`gemm`), an op word
    (`gelu`), a family (`nvjet`) or a word for a linear layer (`gate`, `up`, `down`, `q_proj`, …). A
    trace does not say which weight a matmul used, so a layer's word stands for any matmul, and its
    position in the list is what is compared. `A before B` only compares the first A with the first
    B; both can be host ops or calls.
    """
    if "second" in query.args:
        return _before(window, query.args["first"], query.args["second"])
    wanted: list[Selector] = query.args["sequence"]
    kernels = select(window, HEADS["kernels"])
    matches = [set(_sure(window, selector)) for selector in wanted]
    if kernels.unclear:
        raise Unknown(kernels.why(HEADS["kernels"]))
    rows = kernels.sure
    repeats = window.whole and len(rows) % len(wanted) == 0 and len(rows) > 0
    right = (len(rows) == len(wanted) or repeats) and all(
        row in matches[place % len(wanted)] for place, row in enumerate(rows)
    )
    names = [label(window, kernels, row) for row in rows]
    more = f", … ({len(names)} in all)" if len(names) > 12 else ""
    measured = ", ".join(names[:12]) + more or "no kernels"
    return Measurement("hit" if right else "miss", measured, rows=rows)


@prediction(
    "preceded", 26, "{quantifier:quantifier} {what:selector} is|are preceded by {first:selector}"
)
def _preceded(query: Query) -> Measurement:
    """Whether other GPU work comes right before each kernel, on its stream.

    It is unknown where something else lies between the two, and for the first work of a trace.
    """
    evidence = query.windows[0].evidence
    whole = Window(evidence, "the whole trace", evidence.by_launch[0])
    what, first = (certain(whole, each) for each in (query.what, query.args["first"]))
    if not (what.on_gpu and first.on_gpu):
        raise Unknown("what comes before is judged of work on the GPU")
    mine, before = {*first.sure}, _ones_before(evidence.trace.gpu, whole.rows)
    # with nothing of another kind between them
    nearest = _ones_before(evidence.trace.gpu, np.union1d(what.sure, first.sure).astype(np.int64))
    told = {
        row: before.get(row) in mine
        or (False if row in before and nearest.get(row) not in mine else None)
        for row in what.sure
    }
    return per_window(lambda window, query: _told_of(window, query, told))(query)


def _told_of(window: Window, query: Query, told: Mapping[int, bool | None]) -> Measurement:
    rows = [row for row in window.rows.tolist() if row in told]
    if not rows and query.args["quantifier"] == "every":
        raise Unknown(f"no {query.what.text} to judge")
    answers = [told[row] for row in rows]
    verdict = judge_all(query.args["quantifier"], answers, False)
    measured = f"{query.args['first'].text} right before {answers.count(True)} of {len(rows)}"
    between = verdict == "unknown" and None in answers
    why = "something else runs between them, or the trace begins there" if between else ""
    return Measurement(verdict, measured, why, rows=rows)


def _ones_before(gpu: Gpu, rows: Ints) -> dict[int, int]:
    """Each of these rows that has one before it on its stream, and that one."""
    ahead = gpu.ahead(rows)
    some = ahead >= 0
    return dict(zip(rows[some].tolist(), rows[ahead[some]].tolist(), strict=True))


_FOOTPRINT = ("grid", "block", "registers", "shared_memory")


def _bag(window: Window, query: Query) -> Counter[str]:
    """The names, with the footprints where those are compared."""
    evidence, found = window.evidence, certain(window, query.what)
    if not found.on_gpu:
        return Counter(map(evidence.name, found.sure))
    bag: Counter[str] = Counter()
    for row in found.sure:
        facts = ", ".join(f"{fact} {evidence.footprint(row, fact)}" for fact in _FOOTPRINT)
        more = f" ({facts.replace('_', ' ')})" if "footprints" in query.args else ""
        bag[evidence.operation(row).name + more] += 1
    return bag


def _against(window: Window, query: Query, wanted: Counter[str]) -> Measurement:
    mine, selector = _bag(window, query), query.what
    if mine == wanted:
        text = f"{mine.total()} {selector.text}, {len(mine)} distinct, all the same"
        return Measurement("hit", text)
    parts = (_listed("not in A", mine - wanted), _listed("only in A", wanted - mine))
    measured = "; ".join(part for part in parts if part)
    return from_selection(certain(window, selector), "miss", measured)


def _listed(word: str, bag: Counter[str]) -> str:
    names = [f"{count} x {name}" for name, count in bag.most_common(3)]
    return f"{word}: {', '.join(names)}{', …' if len(bag) > 3 else ''}" if names else ""


def _pair(window: Window, query: Query) -> Measurement:
    rows = []
    for selector in (query.args["first"], query.args["second"]):
        found = certain(window, selector)
        if not found.on_gpu or not found.sure:
            raise Unknown(f"no {selector.text} among the kernels of {window.label}")
        rows += found.sure
    names = list(dict.fromkeys(window.evidence.operation(row).name for row in rows))
    right = (len(names) == 1) is ("same" in query.args)
    return Measurement("hit" if right else "miss", " and ".join(names[:3]), rows=rows)


@known
def _added_in_place(miss: Miss) -> bool:
    if not miss.query.others:
        return False
    mine = {operation.name for operation in miss.operations}
    other = miss.query.others[0]
    theirs = {other.evidence.operation(row).name for row in other.rows.tolist()}
    return any(name not in theirs and name.replace("_badd_", "_bz_") in theirs for name in mine)


@prediction(
    "same",
    45,
    "same {what:selector} as {other:other}",
    "same {what:selector} footprints as {other:other}",
    "{first:selector} and {second:selector} are same kernel",
    "{first:selector} and {second:selector} are different kernels",
    reasons=(_added_in_place,),
)
def _same(query: Query) -> Measurement:
    """Whether kernels are the same: between two traces, or within one.

    `same gemm kernels as A` compares names, byte for byte, and how often each is launched in the
    same scope. `same gemm footprints` also compares grid, block, registers and shared memory: two
    kernels of one name can do different work.
    """
    if "first" in query.args:
        return per_window(_pair)(query)
    bags = [_bag(other, query) for other in query.need_others()]
    if any(bag != bags[0] for bag in bags):
        raise Unknown("the calls in A differ from each other")
    if not bags[0]:
        raise Unknown(f"no {query.what.text} in A")
    return per_window(lambda window, query: _against(window, query, bags[0]))(query)


def _streams(window: Window, query: Query) -> Measurement:
    """Whether anything runs on two streams of one GPU at once."""
    window.need_gpu()
    window.need_whole()
    gpu = window.evidence.trace.gpu
    rows = window.rows[gpu.usable[window.rows]]
    if window.lost or not len(rows):
        raise Unknown("the trace does not say what ran on the streams")
    streams, together = len(distinct(gpu.lane[rows])), _each_lane(gpu, rows) - gpu.busy(rows)
    measured = f"{plural(streams, 'stream')}, two at once for {time_text(together)}"
    wanted = query.args.get("count")
    if together and wanted is not None and wanted.value != streams:
        raise Unknown(f"the trace has {plural(streams, 'stream')}")
    return Measurement(query.hit_if(together > 0), measured, rows=rows.tolist())


def _each_lane(gpu: Gpu, rows: Ints) -> int:
    """The busy time of each stream, summed."""
    return sum(gpu.busy(mine) for mine in split_by(gpu.lane[rows], rows))


def _rows(window: Window, selector: Selector) -> Ints:
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation; say for example `gemm`")
    rows = np.array(certain(window, selector).sure, np.int64)
    if not len(rows) and selector.text.lower() in COPIES:
        rows = np.array(certain(window, HEADS["memcpy"]).sure, np.int64)
    if not len(rows):
        raise Unknown(f"no {selector.text} in {window.label}")
    if not window.evidence.trace.gpu.usable[rows].all():
        raise Unknown("some GPU operations have no time")
    return rows


@prediction(
    "overlap",
    42,
    "[both] [{count:count}] streams [not] overlap|overlaps",
    "{first:selector} and {second:selector} [not] overlap|overlaps",
    "{first:selector} [not] overlap|overlaps {second:selector}",
    "{first:selector} [not] overlap|overlaps",
    "{first:selector} hides {compare:compare} {amount:share} behind {second:selector}",
    expected=lambda args: comparison(args) or ("no overlap" if "not" in args else "overlap"),
)
@per_window
def _overlap(window: Window, query: Query) -> Measurement:
    """Whether kernels run at the same time: of two kinds, or among all of one kind.

    Kernels overlap when one runs before another on the same GPU has ended. A stream runs its
    kernels in order, so only kernels of different streams count. What is measured is the time in
    which both run.
    """
    if "streams" in query.args:
        return _streams(window, query)
    first, second = query.args["first"], query.args.get("second")
    rows, gpu = _rows(window, first), window.evidence.trace.gpu
    if second is None:
        together, what = _each_lane(gpu, rows) - gpu.busy(rows), first.text
    else:
        others = np.setdiff1d(_rows(window, second), rows)
        if not len(others):
            raise Unknown(f"`{first.text}` and `{second.text}` are the same kernels here")
        shared = 0
        for lane in distinct(gpu.lane[rows]):
            mine, theirs = rows[gpu.lane[rows] == lane], others[gpu.lane[others] != lane]
            both = np.concatenate((mine, theirs))
            shared += gpu.busy(mine) + gpu.busy(theirs) - gpu.busy(both)
        together = min(shared, gpu.busy(rows), gpu.busy(others))
        if "hides" in query.args:
            share = together / max(gpu.busy(rows), 1)
            shown = f"{percent_text(share)} of {first.text} runs beside {second.text}"
            return Measurement(query.judge(share), shown, rows=rows.tolist())
        rows, what = np.concatenate((rows, others)), f"{first.text} and {second.text}"
    measured = f"{what} overlap for {time_text(together)}" if together else f"no overlap of {what}"
    return Measurement(query.hit_if(together > 0), measured, rows=rows.tolist())


def _rows_there(window: Window, selector: Selector) -> Ints:
    found = certain(window, selector)
    if not found.on_gpu or not found.sure:
        raise Unknown(f"no {selector.text} on a GPU in {window.label}")
    return np.array(found.sure, np.int64)


@prediction(
    "own_streams",
    41,
    "each {what:selector} on own-stream",
    "{what:selector} [not] on own-stream [{other:selector}]",
    expected=lambda args: "shared" if "not" in args else "own stream",
)
@per_window
def _apart(window: Window, query: Query) -> Measurement:
    """Whether work has a stream of its own: apart from other work, or each launch of it.

    `comms on own-stream compute` holds when no stream runs both. Without the second, all other GPU
    work counts. `each gemm on own-stream` holds when no two of them share one.
    """
    lane = window.evidence.trace.gpu.lane
    rows, what = _rows_there(window, query.what), query.what.text
    mine = set(lane[rows].tolist())
    if "each" in query.args:
        measured = f"{plural(len(rows), what)} on {plural(len(mine), 'stream')}"
        return Measurement(query.hit_if(len(mine) == len(rows)), measured, rows=rows.tolist())
    other = query.args.get("other")
    others = np.setdiff1d(_rows_there(window, other) if other else window.rows, rows)
    if not len(others):
        raise Unknown(f"there is nothing but `{what}`")
    shared = mine & set(lane[others].tolist())
    beside = other.text if other else "other work"
    measured = f"{what} on {plural(len(mine), 'stream')}, {len(shared)} of them with {beside}"
    return Measurement(query.hit_if(not shared), measured, rows=rows.tolist())
