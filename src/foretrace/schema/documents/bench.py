"""`foretrace lab bench --json`: every contender's times at every size, as the results are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from foretrace.base.errors import UsageError

SCHEMA = 1


class ContenderTimes(Struct, frozen=True):
    """One contender at one size, in microseconds.

    `device` is how long the GPU works, launches queued and L2 cold; `call` is one call in a row of
    calls, host and device together. `error` is relative to float64, in norm, the worst of all
    results. `first_call_ms` includes compilation.
    """

    device: float
    device_low: float
    device_high: float
    call: float
    call_low: float
    call_high: float
    error: float
    first_call_ms: float


class BenchRow(Struct, frozen=True):
    """A subject at a size: every contender's times, and the work that cannot be avoided."""

    subject: str
    m: int
    d: int
    h: int
    dtype: str
    flops: int
    bytes: int
    route: str
    timings: dict[str, ContenderTimes]
    left_out: dict[str, str]

    @property
    def size(self) -> str:
        """`8192x768x3072`."""
        return "x".join(str(part) for part in (self.m, self.d, self.h) if part)

    def best_peer(self, measure: str) -> str | None:
        """The fastest contender that is not ours, by `device` or `call`."""
        peers = {name: getattr(at, measure) for name, at in self.timings.items() if name != "ours"}
        return min(peers, key=peers.__getitem__) if peers else None

    def gain(self, measure: str) -> float | None:
        """How many times faster ours is than the best peer, by `device` or `call`."""
        peer = self.best_peer(measure)
        if peer is None or "ours" not in self.timings:
            return None
        return float(getattr(self.timings[peer], measure) / getattr(self.timings["ours"], measure))


class BenchDocument(Struct, frozen=True):
    """A run: where and how, the GPU's ceilings as measured in it, and its rows."""

    schema: int
    command: str
    environment: dict[str, str]
    copy_tbps: float
    matmul_tflops: float
    warm_up_s: float
    rows: tuple[BenchRow, ...]

    def text(self) -> str:
        """The file that `read` reads; msgspec itself would write an infinite error as null."""
        return json.dumps(msgspec.to_builtins(self), indent=1) + "\n"


def read(path: Path) -> BenchDocument:
    """The results in a file."""
    try:
        found = msgspec.convert(json.loads(path.read_text()), BenchDocument)
    except (ValueError, msgspec.ValidationError) as problem:
        raise UsageError(f"{path}: not the results of a benchmark: {problem}") from problem
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: not a benchmark of schema {SCHEMA}")
    return found


def joined(parts: Iterable[BenchDocument]) -> BenchDocument:
    """Several runs on one machine as one; the first one's environment and ceilings stay."""
    first, *rest = parts
    rows = first.rows + tuple(row for part in rest for row in part.rows)
    return msgspec.structs.replace(first, rows=rows)


DOCUMENTS = {"bench": BenchDocument}
