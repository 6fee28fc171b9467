"""`foretrace lab bench --json`: every contender's times at every size, as the results are kept.
`foretrace lab ladder --json`: every claim of the articles, marked, and the table of setups.
`foretrace lab roofs --json`: what this GPU or CPU was measured to do.
`foretrace lab shapes --json`: what each contender pays when the shape changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.work.devices import MeasuredRoofs

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


def read_bench(path: Path) -> BenchDocument:
    """The results in a file."""
    try:
        found = msgspec.convert(json.loads(path.read_text()), BenchDocument)
    except (ValueError, msgspec.ValidationError) as problem:
        raise UsageError(f"{path}: not the results of a benchmark: {problem}") from problem
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: not a benchmark of schema {SCHEMA}")
    return found


def joined_bench(parts: Iterable[BenchDocument]) -> BenchDocument:
    """Several runs on one machine as one; the first one's environment and ceilings stay."""
    first, *rest = parts
    rows = first.rows + tuple(row for part in rest for row in part.rows)
    return msgspec.structs.replace(first, rows=rows)


class MarkedClaim(Struct, frozen=True):
    """One prediction of a claim, with its verdict and the outcome.

    `setup` states the sizes, `recording` a trace of the package, `program` the code that ran.
    `against` is the setup that a prediction calls A.
    `sentence` is what the `source` says under the heading `where`, in substance for a commentary.
    `outcome` is `holds`, `does not hold`, `holds on the A100`, `imprecise` or `inconclusive`.
    `said_by` is `articles`, `commentaries` or `foretrace`; `published` what the articles print, of
    their A100, where they print a number or a name.
    """

    number: str
    source: str
    rung: str
    variant: str
    setup: str
    recording: str
    guess: str
    verdict: str
    measured: str
    expected: str
    why: str
    reason: str
    correction: str
    outcome: str
    claim: str
    sentence: str
    where: str
    address: str
    program: str
    against: str
    said_by: str
    published: str


class UnmarkedClaim(Struct, frozen=True):
    """A claim that a trace of one setup does not decide: `decides` says what does.

    `see` is the number of a claim that says the same; `outcome` is then empty.
    """

    number: str
    source: str
    outcome: str
    claim: str
    sentence: str
    where: str
    address: str
    decides: str
    see: str
    said_by: str


class ClaimCounts(Struct, frozen=True):
    """How many claims have each verdict."""

    hit: int
    miss: int
    unknown: int


class SkippedSetup(Struct, frozen=True):
    """A setup that could not run, and why."""

    setup: str
    why: str


class SetupRow(Struct, frozen=True):
    """One row of the article's table: a sentence for each thing that changed or stayed the same."""

    setup: str
    changed: list[str]
    same: list[str]


class LadderDocument(Struct, frozen=True):
    """What a climb found. `source` is `recorded h200` or `this machine`.

    `outcomes` counts the articles' predictions, `commentaries` and `found` those of others.
    """

    schema: int
    source: str
    device: str
    torch: str
    claims: list[MarkedClaim]
    counts: ClaimCounts
    skipped: list[SkippedSetup]
    article: list[SetupRow]
    outcomes: dict[str, int]
    unmarked: list[UnmarkedClaim] = []
    commentaries: dict[str, int] = {}
    found: dict[str, int] = {}


ShapeValues = dict[str, int | str | bool]


class AgainstFirst(Struct, frozen=True):
    """Wall time over that of the first variant; `beyond`: whether it differs by more than noise."""

    ratio: float | None
    noise: float | None
    beyond: bool | None


class ShapeVisit(Struct, frozen=True):
    """A contender at one shape; `compiled` is None for a contender without torch.compile."""

    first_call_ns: int
    stall_ns: float
    compile_s: float
    graphs: int
    recompiles: list[str]
    gave_up: list[str]
    compiled: bool | None
    wall_ns: float | None
    wall_spread_ns: float | None
    host_ns: float | None
    gpu_ns: float | None
    against_first: AgainstFirst


class ContenderVisits(Struct, frozen=True):
    """A contender at every shape, in the order of the shapes."""

    name: str
    what: str
    graphs: int
    recompiles: int
    stall_ns: float
    visits: list[ShapeVisit]


class LeftOutContender(Struct, frozen=True):
    """A contender that could not run, and why."""

    name: str
    why: str


class ShapesDocument(Struct, frozen=True):
    """What a sweep found. `first` is the variant that all are compared with.

    `fixed` holds the sizes that the sweep does not set. `compiler_cache` is empty or kept.
    """

    schema: int
    rung: str
    device: str
    torch: str
    dtype: str
    shapes: list[ShapeValues]
    fixed: ShapeValues
    first: str
    compiler_cache: str
    compiler_start_ns: int | None
    recompile_limit: int | None
    contenders: list[ContenderVisits]
    left_out: list[LeftOutContender]


DOCUMENTS = {
    "bench": BenchDocument,
    "ladder": LadderDocument,
    "roofs": MeasuredRoofs,
    "shapes": ShapesDocument,
}
