"""Predictions drawn at random, and whether they hold by the raw events of the trace.

The truth is worked out in plain loops on what `reference_reader` reads; nothing of the package is
used. Half of the predictions hold, half do not, by a margin.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import reference_reader as raw

GRAPH = re.compile(r"(cuda|cu|hip)GraphLaunch\w*$")
NAME = re.compile(r"[^\"*\n]{12,}")
MARGIN = 1.2  # of times and sizes


@dataclass(frozen=True)
class Drawn:
    """A prediction and whether it holds; `truth` is what the numbers are, for people."""

    text: str
    holds: bool
    truth: str


@dataclass
class Window:
    """What one step, one call of a region or the whole recording launches and does on the host."""

    work: list[raw.Event]
    host: list[raw.Event]
    length: int = 0

    @property
    def kernels(self) -> list[raw.Event]:
        return [event for event in self.work if event.kind == "kernel"]

    def calls(self, name: str) -> list[raw.Event]:
        return [event for event in self.host if event.name == name]


def events_of(data: bytes) -> list[raw.Event]:
    """Every event, linked."""
    header, records = raw.parse(data)
    base = header.get("baseTimeNanoseconds")
    base = base if isinstance(base, int) and not isinstance(base, bool) else None
    written = enumerate(raw.categorised(records))
    events = [event for i, record in written if (event := raw.decode(i, record, base))]
    events = raw.pair_begin_end(events)
    raw.link_parents(events)
    raw.link_work(events)
    raw.link_steps(events)
    return events


def is_host(event: raw.Event) -> bool:
    return event.kind in ("op", "call", "annotation") and event.timed


def chain(event: raw.Event | None) -> Iterator[raw.Event]:
    """The event and what is around it, the innermost first."""
    while event is not None:
        yield event
        event = event.parent


def shared(events: Sequence[raw.Event], of: Sequence[raw.Event]) -> float:
    """The time of `of`, where what runs at once on a device shares it."""
    total, mine = 0.0, {id(event) for event in of}
    for device in {event.device for event in events}:
        work = [event for event in events if event.device == device]
        edges = sorted({edge for event in work for edge in (event.ts, event.end)})
        begins = sorted(work, key=lambda event: event.ts)
        running: list[raw.Event] = []
        at = 0
        for begin, end in pairwise(edges):
            while at < len(begins) and begins[at].ts <= begin:
                running.append(begins[at])
                at += 1
            running = [event for event in running if event.end > begin]
            own = sum(id(event) in mine for event in running)
            total += (end - begin) * own / len(running) if running else 0
    return total


class Truth:
    """The windows of a trace, and predictions about them."""

    def __init__(self, data: bytes, seed: int) -> None:
        self.random = random.Random(seed)
        self.events = events_of(data)
        self.work = [event for event in self.events if event.kind in raw.GPU_WORK]
        self.host = [event for event in self.events if is_host(event)]
        self.steps = sorted(
            (event for event in self.events if raw.is_step(event) and event.timed),
            key=lambda event: event.ts,
        )
        self.whole = Window(self.work, self.host)
        # whose ops a graph replays, only its capture says; nothing of that is drawn
        self.captures = any("StreamBeginCapture" in event.name for event in self.host)

    def inside(self, outer: raw.Event) -> Window:
        """What begins in a range, on any thread."""
        work = [event for event in self.work if event.launch and raw.holds(outer, event.launch)]
        if raw.is_step(outer):
            work = [event for event in self.work if event.step is outer]
        return Window(work, [event for event in self.host if raw.holds(outer, event)], outer.dur)

    def places(self) -> list[tuple[str, str, list[Window]]]:
        """(scope, prefix, windows): the recording, one step, each step, each call of a region."""
        places = [("", "total.", [self.whole])]
        steps = [self.inside(step) for step in self.steps]
        if steps and all(each.work or any(e.kind == "op" for e in each.host) for each in steps):
            at = self.random.randrange(len(steps))
            numbers = [raw.STEP.match(step.name)[1] for step in self.steps]
            if len({*numbers}) == len(numbers):
                places.append((f"in step {numbers[at]}: ", "", [steps[at]]))
            places.append(("", "", steps))
        regions: dict[str, list[raw.Event]] = {}
        for event in self.events:
            if event.kind == "annotation" and event.timed and not raw.is_step(event):
                regions.setdefault(event.name, []).append(event)
        names = [
            name
            for name, calls in sorted(regions.items())
            if '"' not in name and "*" not in name and name.strip() and len(calls) < 50
            if not any(raw.within_own_name(event) for event in calls)
        ]
        for name in self.random.sample(names, min(2, len(names))):
            windows = [self.inside(event) for event in regions[name]]
            places.append((f'in "{name}": ', "", windows))
        return places

    def draw(self) -> Drawn | None:
        """One prediction, or two joined."""
        one = self._one()
        if one is None or self.random.random() > 0.2:
            return one
        other = self._one()
        if other is None or ":" in one.text.split('"')[0] or other.text.startswith("in "):
            return one
        word = self.random.choice(("and", "or"))
        holds = one.holds and other.holds if word == "and" else one.holds or other.holds
        if one.text.startswith("in "):
            return one
        truth = f"{one.truth}; {other.truth}"
        if self.random.random() < 0.5:
            return Drawn(f"not ({one.text} {word} {other.text})", not holds, truth)
        return Drawn(f"{one.text} {word} {other.text}", holds, truth)

    def _one(self) -> Drawn | None:
        scope, prefix, windows = self.random.choice(self.places())
        if not self.work or self.random.random() < 0.55:
            return self._count(scope, prefix, windows)
        return self._size(scope, prefix, windows)

    # ---- counts

    def _count(self, scope: str, prefix: str, windows: list[Window]) -> Drawn | None:
        name, of = self._counted(prefix, windows)
        counts = [of(window) for window in windows]
        low, high, wanted = min(counts), max(counts), self.random.random() < 0.5
        apart = max(1, high // 10)
        if wanted:
            signs = [f">= {low}", f"<= {high}", f"> {low - 1}", f"< {high + apart}"]
            signs += [f"== {low}"] * 4 * (low == high) + [f"!= {high + apart}"]
        else:
            signs = [f"> {high}", f"< {low}", f">= {high + apart}", f"== {high + apart}"]
            signs += [f"!= {low}"] * (low == high) + [f"== {low}"] * (low != high)
            signs += [f"<= {low - 1}"] if low else []
        sign = self.random.choice(signs)
        return Drawn(f"{scope}{name} {sign}", wanted, f"{counts[:6]}")

    def _counted(self, prefix: str, windows: list[Window]) -> tuple[str, Callable[[Window], int]]:
        draw = self.random.random()
        if not self.work or draw < 0.3:
            return self._on_host(prefix, windows)
        named, op = self._name(windows), self._op()
        if named and draw < 0.5:
            return f'{prefix}count("{named}*")', lambda w: len(self._named(w, named))
        if op and draw < 0.7:
            if all(w.calls(op) for w in windows) and draw < 0.6:
                return f"{prefix}launches({op})", lambda w: len(self._under(w.work, op))
            name = self.random.choice((f"kernels({op})", f"count(under {op})"))
            return f"{prefix}{name}", lambda w: len(self._under(w.kernels, op))
        streams = sorted({str(e.args.get("stream")) for e in self.work if "stream" in e.args})
        if streams and draw < 0.75:
            stream = self.random.choice(streams)
            return f"{prefix}count(kernel stream {stream})", lambda w: sum(
                str(e.args.get("stream")) == stream for e in w.kernels
            )
        if draw < 0.8:
            word = self.random.choice(("HtoD", "DtoH", "DtoD"))
            return f"{prefix}count(copy {word})", lambda w: sum(
                e.kind == "memcpy" and word in e.name for e in w.work
            )
        choices: list[tuple[str, Callable[[Window], int]]] = [
            ("kernels", lambda w: len(w.kernels)),
            ("memcpys", lambda w: sum(e.kind == "memcpy" for e in w.work)),
            ("memsets", lambda w: sum(e.kind == "memset" for e in w.work)),
            ("names", lambda w: len({e.name for e in w.kernels})),
            ("streams", lambda w: len({(e.device, e.args.get("stream", e.tid)) for e in w.work})),
            (
                f"kernels + {prefix}memcpys",
                lambda w: sum(e.kind in ("kernel", "memcpy") for e in w.work),
            ),
            (
                f"kernels * 2 - {prefix}names",
                lambda w: 2 * len(w.kernels) - len({e.name for e in w.kernels}),
            ),
        ]
        name, of = self.random.choice(choices)
        return f"{prefix}{name}", of

    def _on_host(self, prefix: str, windows: list[Window]) -> tuple[str, Callable[[Window], int]]:
        def called(test: re.Pattern[str]) -> Callable[[Window], int]:
            return lambda w: sum(e.kind == "call" and bool(test.match(e.name)) for e in w.host)

        def is_op(event: raw.Event) -> bool:
            return event.kind == "op" and not raw.is_step(event)

        choices: list[tuple[str, Callable[[Window], int]]] = [
            ("launches", called(raw.LAUNCH)),
            ("waits", called(raw.SYNC)),
            ("graph_launches", called(GRAPH)),
            ("ops", lambda w: sum(map(is_op, w.host))),
            ("distinct(op)", lambda w: len({e.name for e in w.host if is_op(e)})),
        ]
        if op := self._op():
            choices.append(
                (f"calls({op})", lambda w: sum(is_op(e) and e.name == op for e in w.host))
            )
            if all(w.calls(op) for w in windows):
                choices.append((f"waits({op})", lambda w: self._waits(w, op)))
        calls = sorted({e.name for e in self.host if e.kind == "call" and e.name.isidentifier()})
        if calls:
            call = self.random.choice(calls)
            choices.append(
                (
                    f"calls({call})",
                    lambda w: sum(e.kind == "call" and e.name == call for e in w.host),
                )
            )
        name, of = self.random.choice(choices)
        return f"{prefix}{name}", of

    def _name(self, windows: Sequence[Window]) -> str:
        names = sorted({e.name for w in windows for e in w.kernels if NAME.fullmatch(e.name)})
        if not names:
            return ""
        name = self.random.choice(names)
        return name[: self.random.randint(12, min(len(name), 60))].rstrip()

    def _named(self, window: Window, start: str) -> list[raw.Event]:
        return [event for event in window.kernels if event.name.startswith(start)]

    def _op(self) -> str:
        ops = sorted(
            {
                event.name
                for event in self.host
                if event.kind == "op" and re.fullmatch(r"\w+::\w+", event.name)
            }
        )
        return self.random.choice(ops) if ops and not self.captures else ""

    def _under(self, work: Sequence[raw.Event], op: str) -> list[raw.Event]:
        return [
            event
            for event in work
            if any(each.kind == "op" and each.name == op for each in chain(event.launch))
            or (event.launch is None and event.op is not None and event.op.name == op)
        ]

    def _waits(self, window: Window, op: str) -> int:
        waits = [e for e in window.host if e.kind == "call" and raw.SYNC.match(e.name)]
        return sum(any(each.kind == "op" and each.name == op for each in chain(e)) for e in waits)

    # ---- times and sizes

    def _beside(self, window: Window) -> bool:
        """Whether work of an earlier step still runs when that of this one begins: a step then has
        only the time after it.
        """
        mine = {id(event) for event in window.work}
        begin = min((event.ts for event in window.work), default=0)
        return any(e.ts <= begin < e.end for e in self.work if id(e) not in mine)

    def _size(self, scope: str, prefix: str, windows: list[Window]) -> Drawn | None:
        one = windows[0]
        if len(windows) != 1 or not all(event.timed for event in self.work):
            return None
        if scope.startswith("in step") and self._beside(one):
            return None
        choices: list[tuple[str, float, str]] = []
        if one.work:
            busy, _ = raw.busy_and_span(one.work)
            if scope:
                choices.append((f"{prefix}gpu.time", busy or 0, "us"))
            kernels = shared(one.work, one.kernels)
            choices.append((f"{prefix}time(kernel)", kernels, "us"))
            copies = [e for e in one.work if e.kind == "memcpy"]
            if copies:
                choices.append((f"{prefix}time(memcpy)", shared(one.work, copies), "us"))
                sizes = [_size(e) for e in copies]
                if None not in sizes:
                    choices.append((f"{prefix}bytes(memcpy)", sum(filter(None, sizes)), "kB"))
        name = self._name(windows)
        if name:
            mine = self._named(one, name)
            lengths = [event.dur for event in mine]
            time = shared(one.work, mine)
            choices += [(f'{prefix}time("{name}*")', time, "us")] * 3
            for word, of in (("max", max), ("min", min), ("mean", fmean), ("median", median)):
                text = f'{word}(time("{name}*"))'
                if not prefix:
                    choices.append((text, of(lengths), "us"))
            whole = shared(one.work, one.work)
            choices.append((f'{prefix}share("{name}*")', time / max(whole, 1), "%"))
            choices.append(
                (f'{prefix}time("{name}*") / {prefix}time(kernel)', time / max(kernels, 1), "%")
            )
        op = self._op()
        if op and one.calls(op):
            spent = sum(event.dur for event in one.calls(op) if event.kind == "op")
            choices.append((f"{prefix}host.time({op})", spent, "us"))
            below = self._under(one.kernels, op)
            choices.append((f"{prefix}time({op})", shared(one.work, below), "us"))
        if one.length and scope:
            choices.append(("host.time", one.length, "us"))
        if not choices:
            return None
        text, value, unit = self.random.choice(choices)
        if value <= 0:
            return None
        scale = {"us": 1e3, "kB": 1e3, "%": 0.01}[unit]
        wanted, below = self.random.random() < 0.5, self.random.random() < 0.5
        times = MARGIN if wanted is below else 1 / MARGIN
        limit = f"{value / scale * times:.6f}"
        blank = "" if unit == "%" else " "
        sign = "<" if below else ">"
        shown = f"{value / scale:.4f} {unit}"
        return Drawn(f"{scope}{text} {sign} {limit}{blank}{unit}", wanted, shown)


def _size(event: raw.Event) -> int | None:
    value: Any = next((v for k, v in event.args.items() if k.lower() in ("bytes", "size")), None)
    return value if isinstance(value, int) else None


def drawn(data: bytes, seed: int, count: int) -> list[Drawn]:
    """So many predictions of a trace; fewer where it has little to say."""
    truth, found = Truth(data, seed), dict[str, Drawn]()
    for _ in range(count * 10):
        if len(found) == count:
            break
        one = truth.draw()
        if one is not None:
            found[one.text] = one
    return list(found.values())
