"""`foretrace try --json`: what each fix brought to a script, measured."""

from __future__ import annotations

from msgspec import DecodeError, Struct, json

from foretrace.base.errors import UsageError

SCHEMA = 1
MOST_BYTES = 4_000_000  # far above any result; a trace of this size is quickly looked through
# what became of a fix
KEPT, NO_GAIN, DIFFERS, RAISED = "kept", "no gain", "differs", "raised"
NOT_APPLIED, NOT_TRIED = "does not apply", "not tried"
MARKS = (b'"found_by"', b'"baseline"', b'"best"')  # keys that no trace has


class TriedBaseline(Struct, frozen=True):
    """Nanoseconds a step of the untouched script: the median, and its interval."""

    median_ns: float
    low_ns: float
    high_ns: float


class TriedFix(Struct, frozen=True):
    """One fix. `ratio` is how many times faster a step is, measured in turns in one process.

    `median_ns` is the baseline divided by that ratio, and by those of the fixes in `base`; `low_ns`
    and `high_ns` are its interval.
    `state` is kept, no gain, differs, raised, does not apply or not tried, and `why` says more.
    `difference` and `noise` are of the losses (or outputs), as shares: with the fix, and between
    two untouched runs. `base` are the fixes that were on for both sides. `cost_ns` is what the
    first steps took longer than those of the untouched script (compiling), where that is a second
    or more; `break_even_steps` later it is paid back, or never.
    """

    name: str
    title: str
    state: str
    write: str
    predicted_ns: float | None = None
    median_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    ratio: float | None = None
    same: bool | None = None
    difference: float | None = None
    noise: float | None = None
    peak_bytes: int | None = None
    cost_ns: float | None = None
    break_even_steps: int | None = None
    pairs: int = 0
    why: str = ""
    base: list[str] = []


class TriedBest(Struct, frozen=True):
    """The fixes that pay together."""

    fixes: list[str]
    median_ns: float
    ratio: float


class TriedPatch(Struct, frozen=True):
    """The change of the source; `ratio` is how much faster it ran than the script untouched.

    Where the changed script did not run, `ratio` is null and there is no change to hand over.
    """

    path: str
    lines: int
    diff: str
    ratio: float | None
    left_out: list[str] = []


class TriedGuess(Struct, frozen=True):
    """What the user expected: the fix that helps most, and by how much."""

    name: str
    ratio: float


class TryDocument(Struct, frozen=True):
    """What was tried on a script, the best fix first."""

    script: str
    device: str
    found_by: str
    baseline: TriedBaseline
    fixes: list[TriedFix]
    best: TriedBest
    patch: TriedPatch | None
    steps: int
    rounds: int
    noise: float
    torch: str = ""
    notes: list[str] = []
    guess: TriedGuess | None = None
    schema: int = SCHEMA


def read_tried(path: str, text: bytes) -> TryDocument | None:
    """What `foretrace try --json` printed into a file; None where the text is anything else."""
    if len(text) > MOST_BYTES or not all(mark in text for mark in MARKS):
        return None
    try:
        return json.decode(text, type=TryDocument)
    except DecodeError as problem:
        raise UsageError(f"{path}: not what `foretrace try --json` prints: {problem}") from None


DOCUMENTS = {"tries": TryDocument}
