"""The same predictions in Python.

    expect = ft.expect(trace)
    assert expect.region("mlp_fwd").kernels == 5
    assert expect.each_step.sync == 0
    assert expect.region("mlp_fwd").count("aten::linear") == 3
    assert expect.region("mlp_fwd").fused("gelu", "mul")
    assert expect.every("gemm").has("layout", "tn")
    assert expect.graph_breaks == 0
    assert expect("in mlp_fwd: gate, up, gelu, mul, down")

Each builds the text of a prediction and marks it, so both forms can say the same. The answer is a
`Verdict` that is true only for a hit: a miss and an unknown both fail an `assert`, and the message
shows what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from foretrace.check.evidence import Evidence
from foretrace.check.marking import mark
from foretrace.check.parsing import parse
from foretrace.check.verdict import Verdict
from foretrace.check.windows import Scope
from foretrace.check.words import HEADS
from foretrace.trace.trace import Trace

_TRACE = Scope()
_FIGURES = {"gpu_idle": "gpu idle", "graph_breaks": "graph breaks", "recompiles": "recompiles"}


class Answer(Verdict):
    """A verdict that can be asserted."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.verdict == "hit"

    def __repr__(self) -> str:
        measured = f"measured {self.measured}" if self.measured else ""
        parts = [f"{self.verdict}: {self.text}", measured, self.why, *self.slice]
        return "<" + "\n   ".join(part for part in parts if part) + ">"


def _compared(symbol: str) -> Callable[[Quantity, object], Answer]:
    return lambda quantity, value: quantity.expect(f"{quantity.text} {symbol} {value}")


@dataclass(frozen=True)
class Quantity:
    """Something to compare: `expect(trace).kernels <= 5`; a time is a text: `"300 us"`."""

    expect: Expect
    text: str

    __eq__ = _compared("==")  # type: ignore[assignment]
    __ne__ = _compared("!=")  # type: ignore[assignment]
    __lt__ = _compared("<")
    __le__ = _compared("<=")
    __gt__ = _compared(">")
    __ge__ = _compared(">=")
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Quantified:
    """`every`, `some` or `no` of a kind of kernels."""

    expect: Expect
    text: str

    def has(self, field: str, value: object = "") -> Answer:
        """Whether they have a field, or this value of it."""
        return self.expect(f"{self.text} has {field} {value}".rstrip())

    def are(self, what: str) -> Answer:
        """Whether they are of a dtype, family, role or bound."""
        return self.expect(f"{self.text} is {what}")

    def launched_by(self, call: str) -> Answer:
        """Whether this runtime or driver call launched them."""
        return self.expect(f"{self.text} is launched by {call}")


class Expect:
    """Predictions about one trace, or the part that `region`, `step`, `each_step` or `op` name.

    Words of the vocabulary are attributes: `kernels`, `gemm`, `memcpy`, `sync`, `launches`, …
    So are `gpu_idle`, `graph_breaks` and `recompiles`.
    """

    def __init__(
        self, evidence: Evidence, other: Evidence | None = None, scope: Scope = _TRACE
    ) -> None:
        self._evidence, self._other, self._scope = evidence, other, scope

    def __call__(self, text: str) -> Answer:
        """Mark a prediction in words."""
        guess = parse(text)
        if guess.scope.kind == "trace":
            guess = replace(guess, scope=self._scope, text=self._scope.prefix + text)
        verdict = mark(guess, self._evidence, self._other)
        return Answer(**{field.name: getattr(verdict, field.name) for field in fields(verdict)})

    def _in(self, scope: Scope) -> Expect:
        return Expect(self._evidence, self._other, scope)

    def region(self, name: str) -> Expect:
        """Every call of a `record_function` range."""
        return self._in(Scope("region", name))

    def step(self, number: int) -> Expect:
        """One step by its number."""
        return self._in(Scope("step", str(number)))

    @property
    def each_step(self) -> Expect:
        """Every step."""
        return self._in(Scope("steps"))

    def op(self, name: str) -> Expect:
        """Every call of a host op, with what it calls."""
        return self._in(Scope("op", name))

    def count(self, what: str) -> Quantity:
        """How many of anything: `count("aten::linear") == 3`."""
        return Quantity(self, what)

    def time(self, what: str = "gpu") -> Quantity:
        """`time("gemm") < "60 us"`; `time()` is GPU time, `time("cpu")` host time."""
        return Quantity(self, f"{what} time")

    def from_line(self, line: str, what: str = "kernels") -> Quantity:
        """Kernels that come from a line: `from_line("model.py:41") == 1`."""
        return Quantity(self, f"{what} from {line}")

    def bound(self, what: str) -> Answer:
        """Whether `host`, `sync`, `compute`, `memory`, `copy`, `comms` or `mixed` bounds it."""
        return self(f"bound is {what}")

    def order(self, *selectors: str) -> Answer:
        """Whether the kernels are launched in this order."""
        return self(", ".join(selectors))

    def fused(self, *ops: str) -> Answer:
        """Whether one kernel does all of these ops."""
        return self(f"{' and '.join(ops)} are fused")

    def same(self, what: str) -> Answer:
        """Whether the trace given as `against` has the same kernels."""
        return self(f"same {what} as A")

    def every(self, what: str) -> Quantified:
        """Every one of these kernels."""
        return Quantified(self, f"every {what}")

    def some(self, what: str) -> Quantified:
        """At least one of these kernels."""
        return Quantified(self, f"some {what}")

    def no(self, what: str) -> Quantified:
        """None of these kernels."""
        return Quantified(self, f"no {what}")

    def __getattr__(self, word: str) -> Quantity:
        if word not in HEADS and word not in _FIGURES:
            problem = f"`{word}` is not in the vocabulary"
            raise AttributeError(f"{problem}; use count({word!r}) for a name")
        return Quantity(self, _FIGURES.get(word, word))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *HEADS, *_FIGURES})


def expect(trace: Trace, against: Trace | None = None) -> Expect:
    """State what you expect of a trace; `against` is the trace that predictions call `A`."""
    return Expect(Evidence(trace), Evidence(against) if against is not None else None)
