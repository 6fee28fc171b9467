"""No shape of a trace costs more than in proportion to its size: each is doubled twice, and the
work is counted (`growth/counting.py`), not timed. `benchmarks/growth.py` times large ones.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.cli import main
from foretrace.model import opening
from foretrace.names import families
from foretrace.schema.documents import encode
from foretrace.show.html.timeline import Timeline
from foretrace.show.overview import reading
from foretrace.show.render.look_page import first_screen, sections
from foretrace.show.render.terminal import drawn
from growth.commands import COMMANDS, prepared
from growth.counting import Lines, Work, growth
from growth.logs import LOGS
from growth.names import hard_names
from growth.odd_bytes import ODD
from growth.shapes import SHAPES
from sweep import FULL

# Of n log n between 200 and 800 events the second doubling adds 2.3 times what the first one adds,
# of a square 4 times.
MOST = 2.5
SIZE = 200
ODD_SIZE = 500
SIZES = {"kernel_names": 20, "deep_with_launches": 40, "everything": 400}  # dear ones, mixed ones
SIZES |= {
    "crossing": 400,
    "steps": 60,
    "nested_regions": 60,
    "tracks": 60,
    "braces": 20_000,
    "broken_records": 40,
    "empty_members": 200,
}
PARTS = ("regions", "steps", "kernels", "ops", "findings")
ALWAYS = ("crossing",)  # the others in the full sweep
COMMAND_SIZE = 24
SUSPECTS = (
    ("share", "kernel_names"),
    ("perfetto", "steps"),
    ("compare", "streams"),
    ("share", "nested_modules"),
)
_NAMES = ("mangled S", "mangled IE", "<", "nested <>", "(", "[", "{", "Sm digits", "triton add")
NAMES = [kind for kind in hard_names(1) if FULL or kind in _NAMES]
CHOSEN = [name for name in SHAPES if FULL or name in ALWAYS]


def looked(path: Path) -> None:
    """Everything that `look` does, with every option."""
    found = reading.overview_of(str(path), cache=False)
    encode(found.look)
    drawn(first_screen(found, 100), bold=False, width=100)
    drawn(sections(found, PARTS, 20), bold=False, width=100)


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is imported and made once is not counted."""
    path = tmp_path_factory.mktemp("once") / "trace.json"
    path.write_bytes(SHAPES["everything"](400).bytes("minified"))
    looked(path)


def _look(content: Callable[[int], bytes], folder: Path) -> Callable[[int], Callable[[], object]]:
    def prepared(n: int) -> Callable[[], object]:
        path = folder / f"{n}.json"
        path.write_bytes(content(n))
        return lambda: looked(path)

    return prepared


@pytest.mark.parametrize("shape", CHOSEN)
def test_a_shape_costs_in_proportion(shape: str, tmp_path: Path) -> None:
    """Deep, wide, many names, streams, steps, regions, devices, ranks, crossings, equal times."""
    content = _look(lambda n: SHAPES[shape](n).bytes("minified"), tmp_path)
    assert growth(content, SIZES.get(shape, SIZE)) < MOST


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_costs_in_proportion(command: str, tmp_path: Path) -> None:
    """Threads, streams, steps, names and records of a log, each as many as there are events."""

    run = _command(command, "crowd", tmp_path)
    assert growth(run, COMMAND_SIZE, Work if FULL else Lines) < MOST


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("command", "shape"), SUSPECTS)
def test_a_command_that_seemed_to_grow_costs_in_proportion(
    command: str, shape: str, tmp_path: Path
) -> None:
    """Of these a clock once said a square, on a machine that others used."""
    run = _command(command, shape, tmp_path)
    assert growth(run, 2 * COMMAND_SIZE, Work if FULL else Lines) < MOST


def _command(command: str, shape: str, folder: Path) -> Callable[[int], Callable[[], object]]:
    def prepare(n: int) -> Callable[[], object]:
        given = prepared(shape, n, Path(tempfile.mkdtemp(dir=folder)))
        line = [word.format_map(given) for word in COMMANDS[command]]
        return lambda: _answered([*line, "--no-cache"])

    return prepare


def _answered(line: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO())  # a lesson asks
        assert main(line) in (0, 1)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("shape", LOGS)
def test_a_log_of_the_compiler_costs_in_proportion(shape: str, tmp_path: Path) -> None:
    """60,000 phases without an end took 11.3 GB: each held the path to it."""
    assert growth(_command("why", shape, tmp_path), 2 * COMMAND_SIZE) < MOST


@pytest.mark.sweep(3)
@pytest.mark.parametrize("shape", ["threads", "streams", "deep"])
def test_a_timeline_costs_in_proportion(shape: str, tmp_path: Path) -> None:
    """40,000 threads took more than 99 s: each looked at every event."""

    def run(n: int) -> Callable[[], object]:
        path = tmp_path / f"{n}.json"
        path.write_bytes(SHAPES[shape](n).bytes("minified"))
        trace = opening.open(path, cache=False)
        Timeline(trace)  # what the trace derives once is not counted
        return lambda: Timeline(trace)

    assert growth(run, SIZE) < MOST


@pytest.mark.parametrize("kind", NAMES)
def test_a_long_name_costs_in_proportion(kind: str) -> None:
    """Names of every bracket and of every family, up to what is looked at of a name."""

    def decoded(n: int) -> Callable[[], object]:
        name = hard_names(n)[kind]
        return lambda: families.decode(name)

    assert growth(decoded, 700) < MOST


@pytest.mark.sweep(4)
@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_costs_in_proportion(kind: str, tmp_path: Path) -> None:
    """Files that a reader may go through again and again; refused or read, in proportion."""

    def read(n: int) -> Callable[[], object]:
        path = tmp_path / f"{n}.json"
        path.write_bytes(ODD[kind](n))
        return lambda: _opened(path)

    assert growth(read, SIZES.get(kind, ODD_SIZE)) < MOST


def _opened(path: Path) -> None:
    with suppress(TraceError):
        opening.load(str(path), Limits(), use_kept=False, keep=False)


# ---- the instrument sees what it must


def _python(n: int) -> None:
    found = 0
    for left in range(n):
        for right in range(n):
            found += left == right


def _comprehension(n: int) -> None:
    [sum([left == right for right in range(n)]) for left in range(n)]


def _search(n: int) -> None:
    names = [str(at) for at in range(n)]
    for name in names:
        names.index(name)


def _bytes(n: int) -> None:
    text = b""
    for at in range(n):
        text = text + b"%8d" % at


def _outer(n: int) -> None:
    (np.arange(20 * n)[:, None] == np.arange(20 * n)[None, :]).any(1)


def _masks(n: int) -> None:
    numbers = np.arange(20 * n)
    for number in range(20 * n):
        (numbers == number).any()


SQUARES = (_python, _comprehension, _search, _bytes, _outer, _masks)


@pytest.mark.parametrize("planted", SQUARES)
def test_a_planted_square_is_seen(planted: Callable[[int], None]) -> None:
    assert growth(lambda n: lambda: planted(n), 50, most_rounds=1) > 3


def test_what_happens_once_is_no_growth() -> None:
    """A table of the interpreter doubles in one of the calls: memory that no size explains."""
    extras = iter([0, 0, 0, 200_000])  # the fourth call is the last one of the first round

    def run(n: int) -> Callable[[], object]:
        extra = next(extras, 0)
        return lambda: [bytes(extra), *(bytes(64) for _ in range(n))]

    assert growth(run, 50) < MOST


def test_a_loop_in_proportion_is_not() -> None:
    def sorted_once(n: int) -> None:
        numbers = np.sort(np.arange(20 * n)[::-1])
        [int(number) for number in numbers]

    assert growth(lambda n: lambda: sorted_once(n), 50) < MOST


def test_the_same_call_counts_the_same() -> None:
    totals = []
    for _ in range(2):
        with Work() as work:
            _python(20)
        totals.append(work.lines)
    assert totals[0] == totals[1]
