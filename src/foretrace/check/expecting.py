"""The same names in Python, for an `assert` in a test.

    expect = ft.expect(trace)
    assert expect.kernels == 5
    assert expect.step.time < "8 ms"
    assert expect.region("mlp_fwd").count("gemm") == 3
    assert expect.fused("gelu", "mul")
    assert expect("share(gemm) > 40%")

Each builds the text of a prediction and marks it. The answer is a `Verdict` that is true only for a
hit: a miss and an unknown both fail an `assert`, and the message shows what was measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from foretrace.check.evidence import Evidence
from foretrace.check.judging import TRUTH
from foretrace.check.language import Scope
from foretrace.check.marking import Marker, mark
from foretrace.check.quantities import QUANTITIES
from foretrace.check.verdict import Verdict
from foretrace.trace.opening import opened
from foretrace.trace.trace import Trace

EVERYWHERE = Scope()


class Answer(Verdict):
    """A verdict that can be asserted."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.verdict == "hit"

    def __repr__(self) -> str:
        measured = f"measured {self.measured}" if self.measured else ""
        parts = [f"{self.verdict}: {self.text}", measured, self.why, *self.slice]
        return "<" + "\n   ".join(part for part in parts if part) + ">"


def _compared(sign: str) -> Callable[[Named, object], Answer]:
    return lambda named, value: named.expect(f"{named.text} {sign} {value}")


class Named:
    """A quantity to compare; a time is a text with its unit: `"300 us"`."""

    def __init__(self, expect: Expect, name: str, of: str = "") -> None:
        self.expect, self.name, self.text = expect, name, name + of

    def __call__(self, *of: str | int) -> Any:
        """Of what: `count("gemm")`; what is true or false is marked at once."""
        if self.name == "step":
            return Expect(self.expect.marker, Scope("step", str(*of)))
        named = Named(self.expect, self.name, f"({', '.join(map(str, of))})")
        true = self.name in QUANTITIES and QUANTITIES[self.name].unit == TRUTH
        return self.expect(named.text) if true else named

    def __getattr__(self, name: str) -> Named:
        return self.expect.named(f"{self.name}.{name}")

    __eq__ = _compared("==")  # type: ignore[assignment]
    __ne__ = _compared("!=")  # type: ignore[assignment]
    __lt__ = _compared("<")
    __le__ = _compared("<=")
    __gt__ = _compared(">")
    __ge__ = _compared(">=")
    __hash__ = None  # type: ignore[assignment]


class Expect:
    """Predictions about one trace, or the part that `region`, `step` or `module` names.

    The quantities are attributes: `kernels`, `gpu.idle`, `step.time`, `total.kernels`.
    """

    def __init__(self, marker: Marker, scope: Scope = EVERYWHERE) -> None:
        self.marker, self.scope = marker, scope

    def __call__(self, text: str) -> Answer:
        """Mark a prediction."""
        verdict = mark(f"{self.scope}{text}", self.marker)
        return Answer(**{field.name: getattr(verdict, field.name) for field in fields(verdict)})

    def region(self, name: str) -> Expect:
        """Every call of a `record_function` range, or of an op."""
        return Expect(self.marker, Scope("op" if "::" in name else "region", name))

    def module(self, name: str) -> Expect:
        """Every call of a module, or of all modules of a class."""
        return Expect(self.marker, Scope("module", name))

    @property
    def per_step(self) -> Expect:
        """Every step, as without it."""
        return self

    def named(self, name: str) -> Named:
        """A quantity, or the beginning of its name."""
        bare = name.removeprefix("total.").removeprefix("a.").removeprefix("b.")
        if not bare or bare in ("total", "a", "b"):
            return Named(self, name)
        if not any(each == bare or each.startswith(f"{bare}.") for each in QUANTITIES):
            hint = self.marker.advise(bare)
            raise AttributeError(f"no quantity {bare!r}" + (f"; {hint}" if hint else ""))
        return Named(self, name)

    def __getattr__(self, name: str) -> Named:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.named(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name.partition(".")[0] for name in QUANTITIES)})


def expect(
    trace: Trace | str | os.PathLike[str], against: Trace | str | os.PathLike[str] | None = None
) -> Expect:
    """State what you expect of a trace; `against` is the trace that predictions call `a`."""
    other = Evidence(opened(against)) if against is not None else None
    return Expect(Marker(Evidence(opened(trace)), other))
