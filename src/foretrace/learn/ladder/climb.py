"""The whole climb: the trace of every stop, every claim marked on it, and the article's table.

`climb_recorded` reads the traces of the package, `climb_here` makes them on this machine. Marking
is the same for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

from foretrace.base.errors import ForetraceError, MissingError
from foretrace.base.units import ratio_text, time_text
from foretrace.check import check
from foretrace.check.language import Quantity
from foretrace.check.marking import read
from foretrace.check.verdict import Verdict
from foretrace.compare import compare
from foretrace.compare.articles import published
from foretrace.compare.documents import ChangeEntry
from foretrace.compare.lines import changed_work, same_work
from foretrace.learn.claims import (
    OUTCOMES,
    SAID_BY,
    Claim,
    ClaimPrediction,
    ClaimProgram,
    claims,
)
from foretrace.learn.claims import find as find_claim
from foretrace.learn.ladder import STOPS, Stop, run, rung
from foretrace.read import recordings
from foretrace.read.run_record import read_run
from foretrace.record.lab_documents import (
    ClaimCounts,
    LadderDocument,
    MarkedClaim,
    SetupRow,
    SkippedSetup,
    UnmarkedClaim,
)
from foretrace.record.profiling import need_torch
from foretrace.trace import opening
from foretrace.trace.trace import Trace

SCHEMA = 2
# Quantities that a CPU decides: it runs smaller sizes, launches no kernels, and its times include
# the arithmetic.
OF_HOST = {"before", "calls", "distinct", "fused", "ops", "steps", "under"}
ON_CPU = "the claim is about a GPU at the article's sizes; a CPU runs smaller ones, on the host"

# the trace for a recording's name; MissingError says why there is none
Find = Callable[[str], Trace]


def stops(only: Sequence[str] = ()) -> list[Stop]:
    """The stops of the rungs named, or all."""
    wanted = {rung(name).name for name in only}  # an unknown name is wrong usage
    return [stop for stop in STOPS if not wanted or stop.rung.name in wanted]


def climb_recorded(
    card: str = "h200", only: Sequence[str] = (), number: str | None = None
) -> LadderDocument:
    """Climb the traces inside the package; needs neither torch nor a GPU.

    With a `number` that claim alone, with the one that it points to and without the table.
    """
    chosen, folder = stops(only), recordings.folder(card)
    wanted = claims()
    if number:
        claim = find_claim(number)
        wanted = (claim, find_claim(claim.see)) if claim.see else (claim,)

    @cache
    def find(name: str) -> Trace:
        return opening.open(folder / f"{name}.json.gz", cache=False)

    records = [read_run(str(path)) for path in sorted((folder / "ladder").glob("*.json.gz"))]
    devices = {str(record.device.name) for record in records if record.device}
    versions = {str(record.torch.version) for record in records if record.torch}
    named = ", ".join(sorted(devices))
    marked = [_marked(*each, find, "cuda", named) for each in _claims_of(chosen, wanted)]
    article = [] if number else list(_article(chosen, find, "cuda"))
    head = (SCHEMA, f"recorded {card}", named, ", ".join(sorted(versions)))
    return _document(head, marked, [], article, _undecided(only, wanted))


def climb_here(
    folder: Path,
    device: str = "auto",
    only: Sequence[str] = (),
    say: Callable[[str], None] = print,
    *,
    why: bool = False,
) -> LadderDocument:
    """Run every stop on this machine, keep the traces in `folder`, and mark the claims on them.

    `why` keeps the compiler's records of every stop that compiles. A stop that cannot run here is
    skipped with its reason, and its claims are inconclusive.
    """
    need_torch()
    import torch

    from foretrace.record.experiments.machine import device_name

    chosen = stops(only)
    where, named = device_name(device)
    opened, skipped = dict[Stop, Trace](), dict[Stop, str]()
    for number, stop in enumerate(chosen, 1):
        say(f"{number} of {len(chosen)}: {stop.title(where)}")
        try:
            opened[stop] = opening.open(visit(stop, where, folder, why=why), cache=False)
        except ForetraceError as problem:
            skipped[stop] = str(problem)
            say(f"   skipped: {problem}")

    def find(name: str) -> Trace:
        stop = by_recording()[name]
        if stop not in opened:
            raise MissingError(skipped.get(stop, f"it needs the rung {stop.rung.name} as well"))
        return opened[stop]

    marked = [
        _marked(claim, prediction, find, where, named)
        for claim, prediction in _claims_of(chosen, claims())
        if not any(program and program.setup for program in (prediction.on, prediction.against))
    ]
    left = [SkippedSetup(stop.title(where), why) for stop, why in skipped.items()]
    article = list(_article([stop for stop in chosen if stop in opened], find, where))
    head = (SCHEMA, "this machine", named, str(torch.__version__))
    return _document(head, marked, left, article, _undecided(only, claims()))


def visit(stop: Stop, device: str, folder: Path, *, why: bool = False, dtype: str = "auto") -> Path:
    """Record one stop on this machine; `MissingError` of one line where it does not run."""
    import torch

    from foretrace.record.experiments.machine import in_one_line

    if device == "cpu" and stop.gpu_only:
        raise MissingError(stop.gpu_only)
    torch._dynamo.reset()  # as in a process of its own: no frame counts as recompiled
    with in_one_line():
        choice = replace(stop.choice(device), dtype=dtype)
        options = {"overwrite": True, "why": why and choice.compiles}
        done = run(stop.rung, choice, folder, **options)
    assert done.trace is not None
    return done.trace


def _document(
    head: tuple[int, str, str, str],
    marked: list[MarkedClaim],
    skipped: list[SkippedSetup],
    article: list[SetupRow],
    rest: list[UnmarkedClaim],
) -> LadderDocument:
    verdicts = Counter(claim.verdict for claim in marked)
    counts = ClaimCounts(verdicts["hit"], verdicts["miss"], verdicts["unknown"])
    outcomes = Counter((claim.said_by, claim.outcome) for claim in marked)
    said, commented, found = ({each: outcomes[who, each] for each in OUTCOMES} for who in SAID_BY)
    return LadderDocument(*head, marked, counts, skipped, article, said, rest, commented, found)


def _undecided(only: Sequence[str], wanted: Sequence[Claim]) -> list[UnmarkedClaim]:
    """The claims without a prediction; they belong to no rung."""
    names = UnmarkedClaim.__struct_fields__
    rest = [] if only else [claim for claim in wanted if not claim.predictions]
    return [UnmarkedClaim(*(getattr(claim, name) for name in names)) for claim in rest]


@cache
def by_recording() -> dict[str, Stop]:
    """Every stop by the name of its recording, which claims use."""
    return {stop.recording: stop for stop in STOPS}


def _claims_of(
    chosen: Sequence[Stop], wanted: Sequence[Claim]
) -> list[tuple[Claim, ClaimPrediction]]:
    names = {stop.rung.name for stop in chosen}
    pairs = ((claim, prediction) for claim in wanted for prediction in claim.predictions)
    return [pair for pair in pairs if pair[1].on.rung in names]


def _marked(
    claim: Claim, prediction: ClaimPrediction, find: Find, device: str, named: str
) -> MarkedClaim:
    program = prediction.on
    stop = by_recording().get(program.trace)
    variant = stop.label if stop else program.name.partition(" ")[2]
    verdict = _verdict(prediction, find, on_cpu=device == "cpu")
    return MarkedClaim(
        claim.number, claim.source, program.rung, variant, _title(program, device), program.trace,
        prediction.guess, verdict.verdict, verdict.measured, verdict.expected, verdict.why,
        prediction.reason, prediction.correction or claim.correction,
        prediction.judged(verdict.verdict, named), claim.claim, claim.sentence, claim.where,
        claim.address, program.code,
        _title(prediction.against, device) if prediction.against else "",
        claim.said_by, published(prediction.a100),
    )  # fmt: skip


def _title(program: ClaimProgram, device: str) -> str:
    """What ran, at which sizes."""
    stop = by_recording().get(program.trace)
    return stop.title(device) if stop else program.setup


def _verdict(prediction: ClaimPrediction, find: Find, *, on_cpu: bool) -> Verdict:
    guess = read(prediction.guess)
    try:
        trace = find(prediction.on.trace)
        against = find(prediction.against.trace) if prediction.against else None
    except MissingError as problem:
        why = str(problem)
    else:
        named = {node.name for node in guess.walk() if isinstance(node, Quantity)}
        if not on_cpu or named <= OF_HOST:
            return check(trace, (guess.text, prediction.reason), against)[0]
        why = ON_CPU
    return Verdict(guess.text, "unknown", "", str(guess.node), why, reason=prediction.reason)


def _article(chosen: Sequence[Stop], find: Find, device: str) -> Iterator[SetupRow]:
    for base, stop in product(chosen, chosen):
        if base.is_baseline_of(stop):
            a, b = find(base.recording), find(stop.recording)
            regions = {read_run(trace.path).rung.region for trace in (a, b)}
            found = compare(a, b, region=regions.pop() if len(regions) == 1 else None)
            per, changed, same = f"per {found.unit.word}", changed_work(found), same_work(found)
            for name, value in (("GPU time", found.gpu_ns), ("Host time", found.cpu_ns)):
                if value.ratio is not None:
                    (changed if value.beyond else same).append(_time(name, value, per))
            setup = f"{stop.title(device)}, against {base.label}"
            yield SetupRow(setup, changed, same)


def _time(name: str, value: ChangeEntry, per: str) -> str:
    if value.ratio == 1:
        return f"{name}: {time_text(value.a)} {per} in both."
    noise = {True: "", False: ", within the noise", None: ", inconclusive"}[value.beyond]
    change = f"{time_text(value.a)} to {time_text(value.b)} {per}"
    return f"{name}: {change} ({ratio_text(value.ratio)}{noise})."
