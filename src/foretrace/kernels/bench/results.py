"""What a benchmark gives: plain data, kept as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender at one size. Times in microseconds: `device` is what the GPU works, launches
    queued and L2 cold; `call` what a call costs in a row of calls, host and device together.
    `error` is relative to float64, in norm, the worst of all results.
    `first_call_ms` is the first call at this size, compilation included."""

    device: float
    device_low: float
    device_high: float
    call: float
    call_low: float
    call_high: float
    error: float
    first_call_ms: float

    @property
    def cost(self) -> float:
        """What a call costs whoever waits for it: the larger of the two times."""
        return max(self.device, self.call)


@dataclass(frozen=True, slots=True)
class Row:
    """A subject at a size: every contender's timing, those left out and why, and the work that
    cannot be avoided.
    """

    subject: str
    m: int
    d: int
    h: int
    dtype: str
    flops: int
    bytes: int
    route: str
    timings: dict[str, Timing]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> str:
        return "x".join(str(part) for part in (self.m, self.d, self.h) if part)

    def best_peer(self, measure: str) -> str | None:
        """The fastest contender that is not ours, by `device` or `call`."""
        peers = {
            name: getattr(timing, measure)
            for name, timing in self.timings.items()
            if name != "ours"
        }
        return min(peers, key=peers.__getitem__) if peers else None

    def gain(self, measure: str) -> float | None:
        """How many times faster ours is than the best peer, by `device` or `call`."""
        peer = self.best_peer(measure)
        if peer is None or "ours" not in self.timings:
            return None
        return float(getattr(self.timings[peer], measure) / getattr(self.timings["ours"], measure))


@dataclass(frozen=True, slots=True)
class Results:
    """A run: where and how, the card's ceilings as measured in it, and its rows."""

    command: str
    environment: dict[str, str]
    copy_tbps: float
    matmul_tflops: float
    warm_up_s: float
    rows: tuple[Row, ...]

    def text(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def read(path: Path) -> Results:
        """The results in a file written by `text`."""
        document: dict[str, Any] = json.loads(path.read_text())
        if document.pop("schema") != SCHEMA:
            raise ValueError(f"{path}: not a benchmark of schema {SCHEMA}")
        rows = tuple(_row(row) for row in document.pop("rows"))
        return Results(**document, rows=rows)


def _row(document: dict[str, Any]) -> Row:
    timings = {name: Timing(**timing) for name, timing in document.pop("timings").items()}
    return Row(**document, timings=timings)


def joined(parts: Iterable[Results]) -> Results:
    """Several runs on one machine as one document; the first one's environment and ceilings stand."""
    first, *rest = parts
    rows = first.rows + tuple(row for part in rest for row in part.rows)
    return Results(
        first.command,
        first.environment,
        first.copy_tbps,
        first.matmul_tflops,
        first.warm_up_s,
        rows,
    )
