"""The whole climb: every stop's trace, every claim marked on it, and the article's table.

`climb_recorded` takes the traces from the package, `climb_here` makes them on this machine. Marking
is the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from foretrace import recordings
from foretrace.comparison import compare
from foretrace.errors import ForetraceError, MissingError
from foretrace.guess import check, parse
from foretrace.guess.claims import Claim, claims
from foretrace.ladder import rung, rungs
from foretrace.ladder._article import Row, row
from foretrace.ladder._stops import STOPS, Stop
from foretrace.model.trace import Trace
from foretrace.opening import open
from foretrace.schema.verdict import VERDICTS, Verdict

SCHEMA = 1
# Kinds of prediction that a CPU cannot decide: it runs smaller sizes, and its host times hold the
# arithmetic as well.
SIZED = ("inputs", "sizes", "time", "ratios", "bounds")

# the trace for a recording's name; MissingError says why there is none
Find = Callable[[str], Trace]


@dataclass(frozen=True, slots=True)
class Climb:
    """What a climb found. `source` is `recorded h200` or `this machine`; `skipped` are setups with
    the reason.

    `where` is the device whose sizes ran: cuda or cpu.
    """

    source: str
    device: str
    torch: str
    marked: tuple[tuple[Claim, Verdict], ...]
    skipped: tuple[tuple[str, str], ...]
    article: tuple[Row, ...]
    where: str = "cuda"

    def document(self) -> dict[str, Any]:
        """What `foretrace ladder --json` prints."""
        counts = Counter(verdict.verdict for _, verdict in self.marked)
        return {
            "schema": SCHEMA,
            "source": self.source,
            "device": self.device,
            "torch": self.torch,
            "claims": [_entry(claim, verdict, self.where) for claim, verdict in self.marked],
            "counts": {name: counts[name] for name in VERDICTS},
            "skipped": [{"setup": setup, "why": why} for setup, why in self.skipped],
            "article": [
                {"setup": line.setup, "changed": list(line.changed), "same": list(line.same)}
                for line in self.article
            ],
        }


def _entry(claim: Claim, verdict: Verdict, where: str) -> dict[str, str]:
    """`setup` says at which sizes, `recording` in which trace of the package: one setup may have
    two.
    """
    setup = by_recording()[claim.trace].title(rung(claim.rung), where)
    return {
        "number": claim.number,
        "source": claim.source,
        "rung": claim.rung,
        "variant": claim.variant,
        "setup": setup,
        "recording": claim.trace,
        "guess": claim.guess,
        "verdict": verdict.verdict,
        "measured": verdict.measured,
        "expected": verdict.expected,
        "why": verdict.why,
        "reason": claim.reason,
        "correction": claim.correction,
    }


def stops(only: Sequence[str] = ()) -> list[Stop]:
    """The stops of the rungs named, or all."""
    wanted = {rung(name).name for name in only}  # an unknown name is wrong usage
    return [stop for stop in STOPS if not wanted or stop.rung in wanted]


def climb_recorded(card: str, only: Sequence[str] = ()) -> Climb:
    """Climb the traces inside the package; needs neither torch nor a GPU."""
    chosen, opened = stops(only), dict[str, Trace]()

    def find(name: str) -> Trace:
        if name not in opened:
            opened[name] = open(recordings.folder(card) / f"{name}.json.gz", cache=False)
        return opened[name]

    devices, versions = _records(recordings.folder(card) / "ladder")
    return Climb(
        f"recorded {card}",
        devices,
        versions,
        tuple((claim, _mark(claim, find)) for claim in _of(chosen, claims())),
        (),
        tuple(_article(chosen, find)),
    )


def _records(folder: Path) -> tuple[str, str]:
    """The card and the version of torch that the run records name."""
    records = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.run.json"))
    ]
    return tuple(
        ", ".join(sorted({record[part][name] for record in records}))  # type: ignore[return-value]
        for part, name in (("device", "name"), ("torch", "version"))
    )


def climb_here(folder: Path, device: str, only: Sequence[str], say: Callable[[str], None]) -> Climb:
    """Run every stop on this machine, keep the traces in `folder`, and mark the claims on them.

    A stop that cannot run here is skipped with its reason, and its claims cannot be told. `say` is
    told each stop.
    """
    from foretrace.ladder._here import device_name, torch_version, visit

    chosen = stops(only)
    where, named = device_name(device)
    opened, skipped = dict[Stop, Trace](), dict[Stop, str]()
    for number, stop in enumerate(chosen, 1):
        say(f"{number} of {len(chosen)}: {stop.title(rung(stop.rung), where)}")
        try:
            opened[stop] = open(visit(stop, where, folder), cache=False)
        except ForetraceError as problem:
            skipped[stop] = str(problem)
            say(f"   skipped: {problem}")
    find = partial(_found, opened, skipped)
    # not twice here
    seen = {
        (claim.number, claim.variant, claim.guess): claim
        for claim in reversed(_of(chosen, claims()))
    }
    marked = [
        (claim, _mark(claim, find, on_cpu=where == "cpu")) for claim in reversed(seen.values())
    ]
    return Climb(
        "this machine",
        named,
        torch_version(),
        tuple(marked),
        tuple((stop.title(rung(stop.rung), where), why) for stop, why in skipped.items()),
        tuple(_article([stop for stop in chosen if stop in opened], find, where)),
        where,
    )


def _found(opened: Mapping[Stop, Trace], skipped: Mapping[Stop, str], name: str) -> Trace:
    stop = by_recording()[name]
    if stop not in opened:
        raise MissingError(skipped.get(stop, f"it needs the rung {stop.rung} as well"))
    return opened[stop]


@cache
def by_recording() -> dict[str, Stop]:
    """Every stop by the names that a claim may use for it."""
    known = {each.name: each for each in rungs()}
    return {
        name: stop
        for stop in STOPS
        for name in (stop.recording(known[stop.rung]), stop.earlier)
        if name
    }


def _of(chosen: Sequence[Stop], listed: Iterable[Claim]) -> list[Claim]:
    names = {stop.rung for stop in chosen}
    return [claim for claim in listed if claim.rung in names]


def _mark(claim: Claim, find: Find, *, on_cpu: bool = False) -> Verdict:
    guess = parse(claim.guess, claim.reason)
    try:
        trace, against = find(claim.trace), find(claim.against) if claim.against else None
    except MissingError as problem:
        return Verdict(
            claim.guess, "unknown", expected=guess.expected, why=str(problem), reason=claim.reason
        )
    if on_cpu and guess.kind.name in SIZED:
        return Verdict(
            claim.guess,
            "unknown",
            expected=guess.expected,
            reason=claim.reason,
            why=(
                "said of a GPU at the article's sizes; a CPU runs smaller ones and does the "
                "arithmetic on the host"
            ),
        )
    return check(trace, guess, against)[0]


def _article(chosen: Sequence[Stop], find: Find, device: str = "cuda") -> Iterable[Row]:
    for base in chosen:
        for stop in chosen:
            if base.begins(stop):
                way = rung(stop.rung)
                a, b = find(base.recording(way)), find(stop.recording(way))
                same = {_region(a), _region(b)}
                found = compare(a, b, region=same.pop() if len(same) == 1 else None)
                yield row(f"{stop.title(way, device)}, against {base.label(way)}", found)


def _region(trace: Trace) -> str:
    """The region around each call, from the run record beside the trace."""
    record = Path(trace.path.removesuffix(".json.gz") + ".run.json")
    return str(json.loads(record.read_text(encoding="utf-8"))["rung"]["region"])
