"""How a prediction fared: `Verdict`.

Lack of data is `unknown`, never a hit. A prediction that cannot be parsed, or names a region that
is not there, is an `error`.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.base.display import Displayed


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
