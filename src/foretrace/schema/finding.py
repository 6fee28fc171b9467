"""What a rule says about a trace (`Finding`), and how a prediction fared (`Verdict`).

Lack of data is `unknown`, never a hit. A prediction that cannot be parsed, or names a region that
is not there, is an `error`. Each file of `analyze/rules` declares a `Rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from foretrace.schema.display import Displayed

STATES = ("found", "clear", "skipped", "crashed")


class Finding(Displayed, Struct, frozen=True):
    """One thing a rule found, with its evidence.

    `state`: found (worth reading), clear (checked, nothing there), skipped (the trace lacks the
    data; `detail` names the capture option that supplies it), crashed (the rule failed; shown, and
    hides no other rule). `saves_ns` is what a fix saves as a replay of the step predicts it, and
    `at_most_ns` what it saves at best, per step where there are steps. Where no fix has a
    prediction, `at_most_ns` stands alone, an upper bound of the rule's. Never a promise.

    `events` are ids into the events table that prove it. `ranges` are the gaps that it is about,
    the longest first: start and end on the clock of that table, and the number of the GPU (0 is the
    first in the trace). `fix` is the change that a user would make, as an order (`CUDA graph
    (torch.cuda.make_graphed_callables)`); empty where the finding calls for none.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    at_most_ns: int | None = None
    fix: str = ""
    ranges: tuple[tuple[int, int, int], ...] = ()
    saves_ns: int | None = None


class Findings(Displayed, list[Finding]):
    """A list of findings, which a notebook shows as a table."""


class Rule(Struct, frozen=True):
    """One thing an expert would look for; the docstring of its module is the manual page.

    `needs` are words that the trace must have (`shapes`, `gpu`, `steps`, ...; see
    `analyses.NEEDS`): without them the rule is skipped and the capture option named. `check` takes
    a `Trace` and yields what it found; nothing means clear.

    A rule observes. `fixes` are the names of those that act on what it sees: a replay of the step
    decides what they save. A rule without such a fix may bound a saving itself and advise (`fix` of
    its findings): `realised` is the share of its bound to expect, and `first` what must be known
    before. `example` is a recording that ships with foretrace and shows it.
    """

    name: str
    title: str
    check: Callable[[Any], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    realised: float = 0.0
    first: str = ""
    example: str = ""


VERDICTS = ("hit", "miss", "unknown", "error")


@dataclass(frozen=True, slots=True)
class Verdict(Displayed):
    """How one prediction fared.

    `measured` is a text for people; `why` explains a miss or says what data is missing. `expected`
    is what was predicted in symbols (`== 5`, `< 0.9x of A`, `fused`), else the prediction without
    its place. `slice` holds the lines of the trace that decide a miss (kernels, chains), or the
    mark under the wrong word of an error; `reason` is why the author expected it.
    """

    text: str
    verdict: str
    measured: str = ""
    expected: str = ""
    why: str = ""
    slice: tuple[str, ...] = ()
    reason: str = ""
    events: tuple[int, ...] = ()


class Verdicts(Displayed, list[Verdict]):
    """A list of verdicts, which a notebook shows as a table."""
