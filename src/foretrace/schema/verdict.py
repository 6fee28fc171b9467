"""How a prediction fared: `Verdict`. Lack of data is `unknown`, never a hit."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module

VERDICTS = ("hit", "miss", "unknown")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`measured` is a text a person reads; `why` explains a miss or says what data is missing.

    `expected` is what was predicted in symbols (`== 5`, `< 0.9x of A`, `fused`), else the
    prediction without its place.

    `slice` holds the lines of the trace that decide a miss (kernels, chains); `reason` is why the
    author expected it.
    """

    text: str
    verdict: str
    measured: str = ""
    expected: str = ""
    why: str = ""
    slice: tuple[str, ...] = ()
    reason: str = ""
    events: tuple[int, ...] = field(default=())

    def _repr_html_(self) -> str:
        return Verdicts([self])._repr_html_()


class Verdicts(list[Verdict]):
    """A list of verdicts that a notebook shows as a table; drawing lies far above this, so it is
    found by name.
    """

    def _repr_html_(self) -> str:
        found: str = import_module("foretrace.render.html.notebook").verdicts_html(self)
        return found
