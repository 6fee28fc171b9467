"""A guided fuzzer: damaged and hostile traces through every analysis, in this process.

    python benchmarks/fuzz.py --minutes 30 --seed 1 --out FOLDER [--seeds FOLDER_OF_TRACES]

Seeds are shipped recordings, cut to a few hundred events, and small traces and logs of
torch.compile below --seeds. An input that reaches a new line, ledger code, bound, state of a rule,
fix or error joins the corpus. Each failure is written once, with fewer events where it still fails.

A failure is: an exception that is no `ForetraceError`, a rule or a fix that crashed, a control
character in a text, NaN in a document, a negative time, a share outside of 0 to 1, a GPU that is
busy for longer than recorded, an interval without its value, a copy to share with another bound,
and more than 5 s of CPU time or the default limit of memory.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec
from fuzz_changes import changed, is_log

import foretrace as ft
from foretrace import jobs, why
from foretrace.base import tables
from foretrace.base.budget import Limits, ceiling, timed
from foretrace.base.tables import encode
from foretrace.compare import document as compared
from foretrace.jobs import lines as job_page
from foretrace.jobs import summary as job_summary
from foretrace.look import lines as look_page
from foretrace.look import rules, summarize
from foretrace.look.documents import FixEntry, Look, StepTime
from foretrace.look.lines import page_of_fixes
from foretrace.look.savings import predict_fixes
from foretrace.pages.export.publish import redact
from foretrace.pages.report import report
from foretrace.read import compiler, recordings
from foretrace.trace.compiled.assemble import assemble
from foretrace.why import lines as why_page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from corpus.build import g0, gn

EVENTS, MOST_BYTES, MOST_LINES = 140, 200_000, 300
CPU_S, MINIMIZE_S, TRACED, THOROUGH = 5.0, 20.0, 0.35, 0.25
SOURCE = str(Path(ft.__file__).parent)
PARTS = ("regions", "steps", "kernels", "ops", "modules", "findings")
GUESSES = (
    "kernels == 5",
    "fused(gelu, mul)",
    "gpu.busy < 50%",
    "under(kernel, aten::mm)",
    "bound == host",
)
RUN = '{"kind": "foretrace-run", "timing": {"wall_ns_per_call": 100000.0}}'
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class BrokenRuleError(Exception):
    """An answer that no trace may have."""


@dataclass
class Entry:
    """An input: bytes, and the seed that it comes from."""

    data: bytes
    seed: Entry | None = None
    name: str = ""


# ---- what is reached


@dataclass
class Reached:
    """Lines and answers that some input has reached; a trace function for `sys.settrace`."""

    left: dict[CodeType, set[int]] = field(default_factory=dict)
    marks: Counter[str] = field(default_factory=Counter)
    new: int = 0
    said: int = 0  # new answers
    stages: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        if code not in self.left:
            mine = code.co_filename.startswith(SOURCE)
            self.left[code] = {line for *_, line in code.co_lines() if line} if mine else set()
        return self.line if self.left[code] else None

    def line(self, frame: FrameType, event: str, arg: object) -> Any:
        left = self.left[frame.f_code]
        if frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.new += 1
        return self.line if left else None

    def mark(self, text: str) -> None:
        self.said += text not in self.marks
        self.marks[text] += 1

    def stage(self, name: str) -> None:
        """What follows; says later which stage took the time."""
        self.stages.append((time.process_time(), name))

    def longest(self) -> str:
        ends = [began for began, _ in self.stages[1:]] + [time.process_time()]
        times = [end - began for (began, _), end in zip(self.stages, ends, strict=True)]
        return self.stages[times.index(max(times))][1]


# ---- what must hold


def in_order(text: str, where: str) -> None:
    if found := CONTROL.search(text):
        raise BrokenRuleError(f"{where}: raw {found[0]!a} in a text")


def sound(document: msgspec.Struct, where: str, signed: bool = False) -> Any:
    """The document as plain data: JSON without NaN; without `signed`, no negative time either."""
    plain = msgspec.to_builtins(document)
    for path, value in leaves(plain, ""):
        if isinstance(value, float) and not isfinite(value):
            raise BrokenRuleError(f"{where}{path} is {value}")
        if isinstance(value, int | float) and not signed:
            if path.endswith("_ns") and value < 0:
                raise BrokenRuleError(f"{where}{path} is negative: {value}")
            if path.endswith("share") and not 0 <= value <= 1 + 1e-9:
                raise BrokenRuleError(f"{where}{path} is outside of 0 to 1: {value}")
    in_order(encode(document), where)
    return plain


def leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if str(key).isidentifier() else f"{path}.*")
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each, f"{path}[]")
    else:
        yield path, value


def times_fit(look: Look) -> None:
    """Busy time is within recorded time, and a predicted time within its interval."""
    for step in look.steps:
        if (step.gpu_busy_ns or 0) > (step.recorded_ns or 1 << 63):
            raise BrokenRuleError("a step is busy for longer than recorded")
    if (look.totals.gpu_busy_ns or 0) > (look.totals.gpu_span_ns or 1 << 63):
        raise BrokenRuleError("the GPUs are busy for longer than recorded")
    if sum(group.share for group in look.groups) > 1 + 1e-6:
        raise BrokenRuleError("groups share more than all of the GPU time")
    for finding in look.findings:
        if (finding.saves_ns or 0) > (finding.at_most_ns or 1 << 63):
            raise BrokenRuleError(f"{finding.rule} saves more than at most")
    entries: list[StepTime | FixEntry] = [*look.fixes]
    for each in [*entries, look.step] if look.step else entries:
        if not each.low_ns <= each.ns <= each.high_ns:
            times = f"{each.low_ns:.0f} {each.ns:.0f} {each.high_ns:.0f}"
            raise BrokenRuleError(f"{type(each).__name__} out of order: {times}")


# ---- the way of one input


def examine(entry: Entry, folder: Path, reached: Reached, thorough: bool) -> None:
    """Run every stage; raises what a stage raises, and `BrokenRuleError`."""
    path = folder / ("input.log" if is_log(entry.data) else "input.json")
    path.write_bytes(entry.data)
    path.with_name("input.run.json").write_text(RUN if len(entry.data) % 4 == 0 else "")
    try:
        with timed(), ceiling(path.name, Limits(seconds=4 * int(CPU_S))):
            (explain if is_log(entry.data) else analyze)(path, entry, reached, thorough)
    except ft.ForetraceError as error:
        code = getattr(error, "code", type(error).__name__)
        reached.mark(f"error {code}")
        if code in ("E_TOO_SLOW", "E_TOO_MUCH_MEMORY"):
            raise BrokenRuleError(f"{code} with {len(entry.data):,} bytes") from error
        in_order(str(error), "error")


def explain(path: Path, entry: Entry, reached: Reached, thorough: bool) -> None:
    found = why.explain(assemble(compiler.one_run(compiler.read(str(path), Limits()))))
    sound(found, "why")
    in_order(tables.text(why_page.first_screen(found, 100)), "why screen")
    if thorough:
        in_order(tables.text(why_page.sections(found, why_page.PARTS, 20)), "why pages")
    for note in found.ledger.notes:
        reached.mark(f"ledger {note.code}")


def analyze(path: Path, entry: Entry, reached: Reached, thorough: bool) -> None:
    trace = ft.open(path, cache=False)
    reached.stage("look")
    found = summarize(trace)
    note_answers(found.look, trace, reached)
    sound(found.look, "look")
    times_fit(found.look)
    in_order(tables.text(look_page.first_screen(found, 100)), "first screen")
    reached.stage("fixes and check")
    predicted = predict_fixes(trace, ())
    sound(predicted, "fixes")
    for verdict in ft.check(trace, GUESSES):
        reached.mark(f"guess {verdict.verdict}")
    if thorough or reached.said:
        sys.settrace(None)  # what follows takes several times as long when it is traced
        reached.stage("pages")
        in_order(tables.text(look_page.sections(found, PARTS, 20)), "pages of look")
        in_order(tables.text(page_of_fixes(predicted)), "page of fixes")
        others(path, trace, found.look, reached)
        reached.stage("compare and job")
        with tempfile.TemporaryDirectory(dir=path.parent) as name:
            beside_seed(Path(name), entry, trace)


def note_answers(look: Look, trace: ft.Trace, reached: Reached) -> None:
    """Mark what the analyses say; a rule that crashed runs once more, and raises."""
    for finding in look.findings:
        reached.mark(f"rule {finding.rule} {finding.state}")
        if finding.state == "crashed":
            rule = next(each for each in rules.rules() if each.name == finding.rule)
            list(rule.check(trace))
            raise BrokenRuleError(f"{finding.rule} crashed once: {finding.detail}")
    for name in (look.verdict.bound, *(fix.name for fix in look.fixes)):
        reached.mark(f"verdict {name}")
    for note in look.ledger.notes:
        reached.mark(f"ledger {note.code}")


def others(path: Path, trace: ft.Trace, look: Look, reached: Reached) -> None:
    """The findings, the report, and a copy to share."""
    ft.findings(trace)
    reached.stage("report")
    page = report(
        [trace], only="" if path.stat().st_size % 5 == 0 else "timeline"
    )  # the map is slow
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S):
        json.loads(block, parse_constant=_no_constant)
    reached.stage("share")
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        shared = summarize(ft.open(redact(trace, Path(name)), cache=False)).look
    damaged = any(note.code == "copied_damage" for note in shared.ledger.notes)
    if damaged or trace.run.timing.wall_ns_per_call:
        return  # what has no time is not copied, which the copy says; nor is a run record
    if shared.verdict.bound != look.verdict.bound:
        raise BrokenRuleError(f"share: {look.verdict.bound} became {shared.verdict.bound}")
    if shared.totals != look.totals:
        raise BrokenRuleError("share: other totals")


def beside_seed(folder: Path, entry: Entry, trace: ft.Trace) -> None:
    """The comparison with the seed, both ways, and a job of the two."""
    beside = [folder / f"rank{rank}.json" for rank in range(2)]
    for file, each in zip(beside, (entry, entry.seed or entry), strict=True):
        file.write_bytes(each.data)
    sides = ft.open(beside[1], cache=False), trace
    for found in (ft.compare(*sides), ft.compare(*reversed(sides))):
        sound(compared(found), "compare", signed=True)
        in_order(str(found), "comparison")
    with jobs.read(folder, cache=False) as job:
        whole = job_summary.summarize(job)
    sound(whole, "job", signed=True)
    in_order(tables.text(job_page.sections(whole, job_page.PARTS, 20)), "job page")


def _no_constant(name: str) -> None:
    raise BrokenRuleError(f"report: {name} in its JSON")


# ---- seeds


def seeds(folder: Path | None) -> Iterator[Entry]:
    yield from (Entry(doc.bytes(), name="synthetic") for doc in (g0(), gn(2)))
    found = [Path(each) for each in recordings.traces().values()]
    found += sorted(folder.rglob("*")) if folder else []
    for path in found:
        if path.is_file() and path.stat().st_size < 400_000:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            if ".log" in path.name:
                yield Entry(b"\n".join(data.split(b"\n")[:MOST_LINES]), name=path.name)
            elif ".json" in path.name and b'"traceEvents"' in data:
                yield Entry(cut(json.loads(data)), name=path.name)


def cut(document: dict[str, Any]) -> bytes:
    """The first events in time, with what they launched, and the names of tracks."""
    events = [event for event in document["traceEvents"] if isinstance(event, dict)]
    timed = sorted((event for event in events if event.get("dur")), key=lambda event: event["ts"])
    first = timed[:EVENTS]
    launched = {event.get("args", {}).get("correlation", -1) for event in first} - {-1}
    work = [each for each in timed[EVENTS:] if each.get("args", {}).get("correlation") in launched]
    tracks = [event for event in events if event.get("ph") == "M"][:20]
    return json.dumps({**document, "traceEvents": [*tracks, *first, *work[:EVENTS]]}).encode()


# ---- failures


def failure(entry: Entry, folder: Path, reached: Reached, thorough: bool) -> tuple[str, str] | None:
    """What one input breaks: a name of the place, and the whole story."""
    began, traced, reached.stages = time.process_time(), sys.gettrace(), []
    reached.stage("read")
    try:
        examine(entry, folder, reached, thorough)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of Polars is no Exception
        return named(error), traceback.format_exc()
    if (taken := time.process_time() - began) < CPU_S:
        return None
    if traced:  # which is slow
        sys.settrace(None)
        return failure(entry, folder, reached, thorough)
    return f"slow {reached.longest()}", f"{taken:.1f} s of CPU time"


def named(error: BaseException) -> str:
    """The innermost place in foretrace, or the rule that is broken without its numbers."""
    if isinstance(error, BrokenRuleError):
        return re.sub(r"-?\d[\d.e+,-]*", "N", str(error))
    frames = [each for each in traceback.extract_tb(error.__traceback__) if SOURCE in each.filename]
    last = frames[-1]
    return f"{type(error).__name__} {last.filename.removeprefix(SOURCE)} {last.name} {last.line}"


def fewer(entry: Entry, name: str, folder: Path) -> Entry:
    """The entry with as few events as still fail in the same place."""
    try:
        document = json.loads(entry.data)
        events = document["traceEvents"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return entry
    end, size, small = time.monotonic() + MINIMIZE_S, len(events) // 2, entry
    while size and time.monotonic() < end:
        for at in range(0, len(events), size):
            tried = Entry(b"", entry.seed)
            left = events[:at] + events[at + size :]
            tried.data = json.dumps({**document, "traceEvents": left}).encode()
            found = failure(tried, folder, Reached(), True)
            if found and found[0] == name:
                events, small = left, tried
                break
            if time.monotonic() > end:
                break
        else:
            size //= 2
    return small


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=Path)
    given = parser.parse_args()
    os.environ["FORETRACE_DEBUG"] = "1"  # a fix that fails says so
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    given.out.mkdir(parents=True, exist_ok=True)
    chooser, reached, failures = random.Random(given.seed), Reached(), dict[str, int]()
    different = {entry.data: entry for entry in seeds(given.seeds)}
    corpus = [entry for entry in different.values() if len(entry.data) < MOST_BYTES]
    waiting, tried, end = list(corpus), 0, time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        if waiting:
            entry = waiting.pop()
        else:
            # what was found last has been tried least
            parent = chooser.choice(corpus[-40:] if chooser.random() < 0.4 else corpus)
            entry = Entry(
                changed(parent.data, [each.data for each in corpus], chooser),
                parent.seed or parent,
                parent.name,
            )
            if not entry.data or len(entry.data) > MOST_BYTES:
                continue
        run(entry, given.out, reached, corpus, failures, chooser)
        tried += 1
        if tried % 100 == 0:
            print(f"{tried} inputs, corpus {len(corpus)}, failures {len(failures)}", flush=True)
    print(f"{tried} inputs, corpus {len(corpus)}, {len(failures)} failures: {failures}")
    (given.out / "reached.json").write_text(json.dumps(reached.marks, indent=1))


def run(
    entry: Entry,
    out: Path,
    reached: Reached,
    corpus: list[Entry],
    failures: dict[str, int],
    chooser: random.Random,
) -> None:
    """Try one input: keep it where it reaches something new, write it where it fails."""
    reached.new = reached.said = 0
    sys.settrace(reached if chooser.random() < TRACED else None)
    found = failure(entry, out, reached, chooser.random() < THOROUGH)
    is_new = entry.seed and (reached.new or reached.said)
    sys.settrace(None)
    if found is None and is_new:
        corpus.append(entry)
    if found is None:
        return
    name, story = found
    failures[name] = failures.get(name, 0) + 1
    if failures[name] == 1:
        stem = hashlib.sha256(name.encode()).hexdigest()[:8]
        print(f"{stem} {name}", flush=True)
        (out / f"{stem}.txt").write_text(f"{name}\nseed {entry.name}\n{story}", errors="replace")
        (out / f"{stem}.json").write_bytes(fewer(entry, name, out).data)


if __name__ == "__main__":
    main()
