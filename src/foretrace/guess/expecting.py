"""The same predictions in Python.

    expect = ft.expect(trace)
    assert expect.region("mlp_fwd").kernels == 5
    assert expect.each_step.sync == 0
    assert expect.region("mlp_fwd").count("aten::linear") == 3
    assert expect.region("mlp_fwd").fused("gelu", "mul")
    assert expect.every("gemm").has("layout", "tn")
    assert expect("in mlp_fwd: gate, up, gelu, mul, down")

Each builds the text of a prediction and marks it, so the two can say exactly the same. The answer
is a `Verdict` that is true only for a hit: a miss and an unknown both fail an `assert`, and the
message shows what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from foretrace.guess.marking import mark, parse
from foretrace.guess.scope import Scope
from foretrace.guess.things import HEADS
from foretrace.guess.work import Work
from foretrace.model.trace import Trace
from foretrace.schema.verdict import Verdict


class Answer(Verdict):
    """A verdict that can be asserted."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.verdict == "hit"

    def __repr__(self) -> str:
        parts = [
            f"{self.verdict}: {self.text}",
            f"measured {self.measured}" if self.measured else "",
            self.why,
            *self.slice,
        ]
        return "<" + "\n   ".join(part for part in parts if part) + ">"


@dataclass(frozen=True)
class Quantity:
    """Something that can be compared: `expect(trace).kernels <= 5`. Times, sizes and shares are
    texts: `"300 us"`.
    """

    expect: Expect
    text: str

    def _is(self, symbol: str, value: object) -> Answer:
        return self.expect(f"{self.text} {symbol} {value}")

    def __eq__(self, value: object) -> Answer:  # type: ignore[override]
        return self._is("==", value)

    def __ne__(self, value: object) -> Answer:  # type: ignore[override]
        return self._is("!=", value)

    def __lt__(self, value: object) -> Answer:
        return self._is("<", value)

    def __le__(self, value: object) -> Answer:
        return self._is("<=", value)

    def __gt__(self, value: object) -> Answer:
        return self._is(">", value)

    def __ge__(self, value: object) -> Answer:
        return self._is(">=", value)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Judged:
    """`every`, `some` or `no` of a kind of kernels."""

    expect: Expect
    text: str

    def has(self, field: str, value: object = "") -> Answer:
        return self.expect(f"{self.text} has {field} {value}".rstrip())

    def are(self, what: str) -> Answer:
        return self.expect(f"{self.text} is {what}")

    def launched_by(self, call: str) -> Answer:
        return self.expect(f"{self.text} is launched by {call}")


class Expect:
    """Predictions about one trace, or about the place in it that `region`, `step`, `each_step` or
    `op` name.

    Words of the vocabulary are attributes: `kernels`, `gemm`, `pointwise`, `memcpy`, `sync`,
    `launches`, `ops`, …
    """

    def __init__(self, work: Work, other: Work | None = None, scope: Scope = Scope()) -> None:  # noqa: B008 (frozen)
        self._work, self._other, self._scope = work, other, scope

    def __call__(self, text: str) -> Answer:
        """Mark a prediction in words."""
        guess = parse(text)
        if guess.scope.kind == "trace":
            place = f"{self._scope.text}: " if self._scope.text else ""
            guess = replace(guess, scope=self._scope, text=place + text)
        verdict = mark(guess, self._work, self._other)
        return Answer(**{field.name: getattr(verdict, field.name) for field in fields(verdict)})

    def _in(self, scope: Scope) -> Expect:
        return Expect(self._work, self._other, scope)

    def region(self, name: str) -> Expect:
        return self._in(Scope("region", name))

    def step(self, number: int) -> Expect:
        return self._in(Scope("step", str(number)))

    @property
    def each_step(self) -> Expect:
        return self._in(Scope("steps"))

    def op(self, name: str) -> Expect:
        return self._in(Scope("op", name))

    def count(self, what: str) -> Quantity:
        """How many of anything: `count("aten::linear") == 3`."""
        return Quantity(self, what)

    def time(self, what: str = "gpu") -> Quantity:
        """`time("gemm") < "60 us"`; alone the time of the GPU, `time("cpu")` that of the host."""
        return Quantity(self, f"{what} time")

    @property
    def gpu_idle(self) -> Quantity:
        return Quantity(self, "gpu idle")

    def bound(self, what: str) -> Answer:
        return self(f"bound is {what}")

    def order(self, *things: str) -> Answer:
        return self(", ".join(things))

    def fused(self, *ops: str) -> Answer:
        return self(f"{' and '.join(ops)} are fused")

    def same(self, what: str) -> Answer:
        """The same kernels as the trace given as `against`."""
        return self(f"same {what} as A")

    def every(self, what: str) -> Judged:
        return Judged(self, f"every {what}")

    def some(self, what: str) -> Judged:
        return Judged(self, f"some {what}")

    def no(self, what: str) -> Judged:
        return Judged(self, f"no {what}")

    def __getattr__(self, word: str) -> Quantity:
        if word not in HEADS:
            raise AttributeError(
                f"`{word}` is no word of the vocabulary; use count({word!r}) for a name"
            )
        return Quantity(self, word)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *HEADS})


def expect(trace: Trace, against: Trace | None = None) -> Expect:
    """Say what you expect of a trace; `against` is the trace that predictions call `A`."""
    return Expect(Work(trace), Work(against) if against is not None else None)
