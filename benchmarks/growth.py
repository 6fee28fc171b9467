"""What each command takes of extreme inputs at a size and at four times that size.

    python benchmarks/growth.py                              # every command, every shape
    python benchmarks/growth.py --commands share --shapes threads streams --size 10000

CPU time and memory are those above the same command on a tiny input. In proportion both grow
4-fold; a square grows 16-fold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from growth.commands import COMMANDS, SHARED, prepared

SUSPECT = 5.5  # a ratio above that of n log n
_LEAST_S, _LEAST_MB = 0.4, 24.0  # what is less than this is noise
_LONGEST_S = 120


class Taken(NamedTuple):
    """What a process took; `code` is how it ended."""

    seconds: float
    megabytes: float
    code: int


def taken(line: list[str], folder: Path) -> Taken:
    """The CPU time and the peak memory of one command and its children."""
    run = [sys.executable, "-m", "foretrace", *line]
    with subprocess.Popen(
        run,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr").open("wb"),
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        preexec_fn=_limited,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Taken(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def _limited() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def measured(command: str, shape: str, size: int) -> Taken:
    """One command on one shape; the input is not counted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = prepared(shape, size, folder)
        return taken([word.format_map(given) for word in COMMANDS[command]], folder)


def main() -> None:
    """Print a row for each command and shape; one that grows too fast has a mark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--shapes", nargs="*", default=list(SHARED))
    parser.add_argument("--size", type=int, default=4000)
    args = parser.parse_args()
    print(f"{'command':12}{'shape':20}{'s':>8}{'4x':>8}{'ratio':>7}{'MB':>8}{'4x':>8}{'ratio':>7}")
    for command in args.commands:
        for shape in args.shapes:
            base, one, four = (
                measured(command, shape, size) for size in (20, args.size, 4 * args.size)
            )
            _row(command, shape, base, one, four)


def _row(command: str, shape: str, base: Taken, one: Taken, four: Taken) -> None:
    text, marks = f"{command:12}{shape:20}", ""
    least = (_LEAST_S, _LEAST_MB)
    for number, (low, first, second) in enumerate(zip(base[:2], one[:2], four[:2], strict=True)):
        ratio = max(second - low, least[number]) / max(first - low, least[number])
        text += f"{first:8.2f}{second:8.2f}{ratio:7.1f}"
        marks += ("time ", "memory ")[number] if ratio > SUSPECT else ""
    codes = sorted({each.code for each in (one, four)})
    print(f"{text} {marks}{'' if codes == [0] else codes}", flush=True)


if __name__ == "__main__":
    main()
