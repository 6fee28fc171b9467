"""Processes of the script: what each is told, what it reports, and its end. Needs no torch.

A process reports line by line into a file, so that nothing measured is lost when it dies. It has a
session of its own: when it ends, or we do, whatever it started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from foretrace.base.errors import UserCodeError, first_line

QUIET_S = 300  # a process that reports nothing for this long is stuck
LEAVING_S = 2  # a process that has reported its end may tidy up for this long
POLL_S = 0.05
RUNS = 1000  # no exit code
OUT_OF_TIME = "the budget was spent"


class TrySpec(Struct, frozen=True):
    """What one process does. `on` are fixes for its whole life, `turned` those off and on in turns.

    `watch` asks which fixes apply. `source` is the text to run in place of the script's own. `seed`
    is what the forward passes of the first steps draw their random numbers from.
    `further` are modules that declare fixes beside those of `applied`.
    """

    script: str
    report: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    function: bool = False
    find: str = "auto"
    on: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
    same_steps: int = 8
    pairs: int = 0
    block: int = 0
    watch: bool = False
    seed: int = 0
    trace: str = ""
    source: str | None = None
    further: tuple[str, ...] = ()


class Edit(Struct, frozen=True):
    """A change of the script's source.

    `add` gives a call at `line` the keywords of `words`; `after` puts `words` below the statement
    at `line`; `top` puts them below the imports; `by hand` only says what to write at `line`.
    """

    kind: str
    words: str
    line: int = 0
    name: str = ""


class Kept(Struct, frozen=True, tag="kept"):
    """The losses of the first steps, samples of their outputs, and how long they took together."""

    losses: list[float]
    outputs: list[list[float]]
    took_ns: float = 0


class Block(Struct, frozen=True, tag="block"):
    """One block: nanoseconds a step, and the most memory allocated."""

    pair: int
    on: bool
    ns: float
    steps: int
    peak_bytes: int


class Facts(Struct, frozen=True, tag="facts"):
    """The script as it was seen; `why_not` says of each fix why it does not apply, or nothing."""

    device: str
    device_name: str
    found_by: str
    why_not: dict[str, str]
    edits: dict[str, list[Edit]]
    torch: str


class End(Struct, frozen=True, tag="end"):
    """The process ended: `finished` if its plan was done, else with the script."""

    steps: int
    finished: bool
    code: int = 0
    problem: str = ""


Said = Kept | Block | Facts | End
END, LAST = b'{"type":"end"', 500  # how the last line of a report begins, and where to look for it


class ProcessReport(Struct):
    """All that one process reported."""

    kept: Kept | None = None
    blocks: list[Block] = []
    facts: Facts | None = None
    end: End | None = None
    code: int = 0
    stopped: str = ""
    log: str = ""

    def pairs(self) -> list[tuple[float, float]]:
        """Nanoseconds a step with the fixes off and on, pair by pair."""
        found: dict[int, dict[bool, float]] = {}
        for each in self.blocks:
            found.setdefault(each.pair, {})[each.on] = each.ns
        return [(both[False], both[True]) for both in found.values() if len(both) == 2]

    @property
    def failure(self) -> str:
        """Why it did not finish its plan, in one line; empty if it did."""
        if self.end is not None and self.end.finished:
            return ""
        if self.stopped:
            return self.stopped
        if self.end is None:
            last = self.log.strip().splitlines()[-1:] or [""]
            return f"its process ended with code {self.code}: {last[0]}".rstrip(": ")
        return first_line(self.end.problem)


class Processes:
    """Starts the script's processes: each is a fork of one that has loaded torch and nothing else.

    Loading torch takes seconds, and every fix needs a process of its own. `child` is the name of
    the module that forks.
    """

    def __init__(self, folder: Path, child: str) -> None:
        self.folder = folder
        more = {
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # CUDA does not survive a fork
        }
        self._log = (folder / "start.txt").open("wb")
        self._parent = subprocess.Popen(
            [sys.executable, "-m", child],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env={**os.environ, **more},
        )

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *problem: object) -> None:
        _end(self._parent.pid)
        self._parent.communicate()
        self._log.close()

    def run(
        self, spec: TrySpec, *, limit_s: float, environment: Mapping[str, str] | None = None
    ) -> ProcessReport:
        """Run the process of `spec` to its end, and read its report."""
        ends = time.monotonic() + limit_s  # the wait for the process that forks counts
        told, log = self.folder / "spec.json", self.folder / "log.txt"
        told.write_bytes(msgspec.json.encode(spec))
        report = Path(spec.report)
        report.write_bytes(b"")
        child = self._ask({"spec": str(told), "log": str(log), "environment": environment or {}})
        try:
            code, stopped = self._waited(child, report, ends)
        finally:
            _end(child)
        log_end = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        found = ProcessReport(blocks=[], code=code, stopped=stopped, log=log_end)
        decoder = msgspec.json.Decoder(Said)
        for line in report.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # cut in the middle
                said = decoder.decode(line)
                if isinstance(said, Block):
                    found.blocks.append(said)
                else:
                    setattr(found, type(said).__name__.lower(), said)
        return found

    def _waited(self, child: int, report: Path, ends: float) -> tuple[int, str]:
        """Wait for the end of a process: its exit code, and why it was stopped, if it was."""
        quiet = time.monotonic()
        size, stopped, is_over = 0, "", False
        while (code := self._ask({"ended": child})) == RUNS:
            time.sleep(POLL_S)
            now = time.monotonic()
            if (grown := report.stat().st_size) != size:
                size, quiet, is_over = grown, now, END in report.read_bytes()[-LAST:]
            if is_over and now - quiet > LEAVING_S:
                _end(child)  # all is said: workers of a loader may hold up its end for a minute
            elif now > ends:
                stopped = OUT_OF_TIME
            elif now - quiet > QUIET_S:
                stopped = f"no step for {QUIET_S} s: it waits for something, or never steps"
            if stopped:
                _end(child)
        return code, stopped

    def _ask(self, words: Mapping[str, object]) -> int:
        """Say one line to the process that forks, and read the number it answers."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(msgspec.json.encode(words) + b"\n")
        self._parent.stdin.flush()
        answer = self._parent.stdout.readline()
        if not answer:
            why = (self.folder / "start.txt").read_text(errors="replace").strip().splitlines()
            raise UserCodeError(f"no process can be started: {why[-1] if why else 'it ended'}")
        return int(answer)


def _end(group: int) -> None:
    """End a process and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
