"""What a case is: an odd file, the behaviour it must meet, and what else must be true of the result.

    Case("A19 bom_utf8", b"\\xef\\xbb\\xbf" + G0, accept(bom=1), same_as=G0)

`accept` and `recover` list every note of severity notice or worse, with its count (`ANY` where none
is fixed); a note that is not listed fails the case, unless `may` allows it. Notes of severity info
need not be listed. What opens has the numbers of G0, unless `check` says more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.build import Doc, g0

ANY = -1
G0 = g0().bytes()


@dataclass(frozen=True)
class Expect:
    """`verdict` is accept, recover, reject or usage; the rest applies where it makes sense."""

    verdict: str
    notes: dict[str, int] = field(default_factory=dict)
    may: frozenset[str] = frozenset()  # allowed, not demanded; "*" allows every note
    good: int | None = None  # kept + repaired
    seen: int | None = None
    code: str = ""
    says: tuple[str, ...] = ()  # each must be in the message, whatever its case


def accept(
    *, may: str = "", good: int | None = None, seen: int | None = None, **notes: int
) -> Expect:
    """Opens, exit 0; nothing is lost unless `good` and `seen` say so."""
    return Expect("accept", notes, frozenset(may.split()), good, seen)


def recover(good: int | None, seen: int | None, *, may: str = "", **notes: int) -> Expect:
    """Opens, exit 0, with `good` of `seen` events; exit 1 under `--strict`."""
    return Expect("recover", notes, frozenset(may.split()), good, seen)


def reject(code: str, *says: str) -> Expect:
    """Exit 3, one line that names the file and says what is wrong."""
    return Expect("reject", code=code, says=says)


def several(*says: str) -> Expect:
    """The path holds several traces: opening one is exit 2 with a message that names each of
    `says`; `look` gives all.
    """
    return Expect("usage", says=says)


@dataclass(frozen=True)
class Opened:
    """One case, opened: what its check may look at."""

    trace: Any
    doc: dict[str, Any]

    @property
    def ledger(self) -> Any:
        return self.trace.ledger

    @property
    def totals(self) -> dict[str, Any]:
        return self.doc["totals"]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return self.trace.kernels.sort("ts_ns", "id", nulls_last=True).to_dicts()

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.trace.events.to_dicts()

    def named(self, name: str) -> dict[str, Any]:
        """The one event of that name."""
        (event,) = (event for event in self.events if event["name"] == name)
        return event

    def op(self, name: str) -> dict[str, Any]:
        return next(row for row in self.doc["ops"] if row["name"] == name)


Check = Callable[[Opened], None]
Place = Callable[[Path], Path | str]
Content = Doc | bytes | Callable[[], bytes]


def is_t0(opened: Opened, times: int = 1) -> None:
    """The truth of G0, `times` over."""
    totals = opened.totals
    assert totals["kernels"] == totals["launches"] == totals["cpu_ops"] == times
    assert totals["gpu_busy_ns"] == 50_000 * times
    assert (totals["memcpys"], totals["memsets"], totals["syncs"]) == (0, 0, 0)
    assert [kernel["delay_ns"] for kernel in opened.kernels] == [50_000] * times
    assert [kernel["op_name"] for kernel in opened.kernels] == ["aten::mm"] * times
    steps = [(step["index"], step["cpu_ns"], step["kernels"]) for step in opened.doc["steps"]]
    assert steps == [(2, 1_000_000, 1)] * times


def gpu_is_t0(opened: Opened) -> None:
    """The GPU side of T0, for cases that rename the step or damage the op."""
    assert opened.totals["kernels"] == opened.totals["launches"] == 1
    assert opened.totals["gpu_busy_ns"] == 50_000
    assert [kernel["delay_ns"] for kernel in opened.kernels] == [50_000]


def gpu_time_unknown(opened: Opened) -> None:
    """Work was seen and none of it has a time: the sums are unknown, not 0."""
    assert opened.totals["kernels"] > 0
    assert opened.totals["gpu_busy_ns"] is None
    assert opened.totals["gpu_span_ns"] is None


def shows(
    *checks: Check,
    kernels: dict[str, list[Any]] | None = None,
    steps: dict[str, list[Any]] | None = None,
    ops: dict[str, dict[str, int]] | None = None,
    notes: dict[str, int] | None = None,
    **totals: int | None,
) -> Check:
    """Columns of the kernels and of the steps, fields of ops, counts of notes, and totals (`n_kernels`
    is the number of kernels); `checks` as well.
    """

    def run(opened: Opened) -> None:
        for check in checks:
            check(opened)
        for column, values in (kernels or {}).items():
            assert [kernel[column] for kernel in opened.kernels] == values, column
        for column, values in (steps or {}).items():
            assert [step[column] for step in opened.doc["steps"]] == values, column
        for name, fields in (ops or {}).items():
            assert opened.op(name) == opened.op(name) | fields, name
        for code, count in (notes or {}).items():
            assert opened.ledger.count(code) == count, code
        for name, value in totals.items():
            assert opened.totals[name.removeprefix("n_")] == value, name

    return run


@dataclass(frozen=True)
class Case:
    """`name` begins with the id. `content` is the file, or a function that makes a large one.

    `place` puts files into an empty folder and returns what to open, for the cases where one plain
    file is not enough. `same_as` is a well-formed document with the same numbers; without it the
    file itself is compared with the slow reader, unless `compared` is False (numbers that a
    well-formed document cannot state).
    """

    name: str
    content: Content | None
    expect: Expect
    check: Check | None = is_t0  # what else is true of a file that opens
    same_as: Content | None = None
    compared: bool = True
    file: str = "t.json"
    place: Place | None = None
    limits: dict[str, int] = field(default_factory=dict)
    needs: str = ""  # a module without which the case cannot be built

    @property
    def id(self) -> str:
        return self.name.split()[0]

    def data(self) -> bytes:
        assert self.content is not None
        return made(self.content)

    def twin(self) -> bytes:
        """A well-formed document with the same numbers."""
        return self.data() if self.same_as is None else made(self.same_as)

    def put(self, folder: Path) -> Path | str:
        if self.place is not None:
            return self.place(folder)
        path = folder / self.file
        path.write_bytes(self.data())
        return path


def made(content: Content) -> bytes:
    if isinstance(content, Doc):
        return content.bytes()
    return content() if callable(content) else content
