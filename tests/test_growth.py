"""No shape of a trace costs more than in proportion to its size: each is doubled twice, and the
work is counted (`growth/counting.py`), not timed. All of it runs in the full sweep alone.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.cli import main
from foretrace.trace import opening
from foretrace.work import families
from growth.counting import growth
from growth.names import hard_names
from growth.shapes import LOGS, ODD, TRACES

pytestmark = pytest.mark.sweep

# Of n log n between 200 and 800 events the second doubling adds 2.3 times what the first one adds,
# of a square 4 times.
MOST = 2.5
TRACE, OUT = "{trace}", "{out}"
COMMANDS: dict[str, tuple[str, ...]] = {
    "look": ("look", TRACE, "--json"),
    "fixes": ("look", TRACE, "--fixes", "--json"),
    "report": ("report", TRACE, "-o", OUT + ".html"),
    "share": ("export", TRACE, "--to", "shared", "-o", OUT),
    "compare": ("compare", TRACE, "{other}", "--all"),
    "check": ("check", TRACE, "total.kernels < 9", "bound == host", "--all"),
    "csv": ("export", TRACE, "--to", "csv", "-o", OUT + ".csv"),
    "guess": ("check", TRACE),
    "lesson": ("lesson", TRACE, "--json"),
    "job": ("job", "{job}", "--json", "--html", OUT + ".html"),
}
SIZES = {"unescaped quotes": 40, "records with junk behind them": 60, "strings that never end": 100}


def command(name: str, shape: str, folder: Path) -> Callable[[int], Callable[[], object]]:
    """A command on a trace, on two of them as a job, or on a log."""

    def prepare(n: int) -> Callable[[], object]:
        place = Path(tempfile.mkdtemp(dir=folder))
        content = TRACES.get(shape, TRACES["names"])(n)
        (place / "logs").mkdir()
        (place / "job").mkdir()
        for file in ("a.json", "b.json"):
            (place / file).write_bytes(content)
        for rank in range(2):
            about = {"distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"}}
            (place / "job" / f"{rank}.json").write_text(json.dumps(json.loads(content) | about))
        if shape in LOGS:
            (place / "logs" / "torch_trace.log").write_bytes(LOGS[shape](n))
        paths = {"trace": "a.json", "other": "b.json", "job": "job", "why": "logs", "out": "out"}
        given = {name: str(place / path) for name, path in paths.items()}
        line = [word.format_map(given) for word in COMMANDS.get(name, ("why", "{why}", "--all"))]

        def run() -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.stdin", io.StringIO())  # a lesson asks
                assert main([*line, "--no-cache"]) in (0, 1)

        return run

    return prepare


@pytest.mark.parametrize("shape", TRACES)
def test_a_shape_costs_in_proportion(shape: str, tmp_path: Path) -> None:
    """Deep, wide, many names, streams, steps, regions, devices, ranks, crossings, equal times."""
    assert growth(command("look", shape, tmp_path), 200) < MOST


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_costs_in_proportion(name: str, tmp_path: Path) -> None:
    """Threads, streams, steps and names, each as many as there are events."""
    assert growth(command(name, "crowd", tmp_path), 48) < MOST


@pytest.mark.parametrize("shape", LOGS)
def test_a_log_of_the_compiler_costs_in_proportion(shape: str, tmp_path: Path) -> None:
    assert growth(command("why", shape, tmp_path), 100) < MOST


@pytest.mark.parametrize("kind", hard_names(1))
def test_a_long_name_costs_in_proportion(kind: str) -> None:
    """Names of every bracket and of every family, up to what is looked at of a name."""

    def decoded(n: int) -> Callable[[], object]:
        name = hard_names(n)[kind]
        return lambda: families.decode(name)

    assert growth(decoded, 700) < MOST


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_costs_in_proportion(kind: str, tmp_path: Path) -> None:
    """Files that a reader may go through again and again; refused or read, in proportion."""

    def read(n: int) -> Callable[[], object]:
        path = tmp_path / f"{n}.json"
        path.write_bytes(ODD[kind](n))

        def opened() -> None:
            with suppress(TraceError):
                opening.load(str(path), Limits(), use_kept=False, keep=False)

        return opened

    assert growth(read, SIZES.get(kind, 500)) < MOST


# ---- the instrument sees what it must


def _comprehension(n: int) -> None:
    [sum([left == right for right in range(n)]) for left in range(n)]


def _search(n: int) -> None:
    names = [str(at) for at in range(n)]
    for name in names:
        names.index(name)


def _outer(n: int) -> None:
    (np.arange(20 * n)[:, None] == np.arange(20 * n)[None, :]).any(1)


@pytest.mark.parametrize("planted", [_comprehension, _search, _outer])
def test_a_planted_square_is_seen(planted: Callable[[int], None]) -> None:
    assert growth(lambda n: lambda: planted(n), 50) > 3


def test_a_loop_in_proportion_is_not() -> None:
    def sorted_once(n: int) -> None:
        [int(number) for number in np.sort(np.arange(20 * n)[::-1])]

    assert growth(lambda n: lambda: sorted_once(n), 50) < MOST
