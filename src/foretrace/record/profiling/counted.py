"""The script as Nsight Compute runs it: the counters are on during one step.

    ncu … python -m foretrace.record.profiling.counted STEP FIND MODULE SCRIPT …

Steps are those that `foretrace record` finds. After the counted one the script ends: the rest of a
long run has nothing to add.
"""

from __future__ import annotations

import os
import sys

import torch

from foretrace.record.profiling.ncu import EXIT_NO_STEP
from foretrace.record.profiling.script import WindowDone, run_script
from foretrace.record.profiling.script_hooks import StepFinder, own_streams

EVERYTHING = -1


class CountedStep:
    """Turns the counters on when the step begins, and ends the script when the next one does."""

    def __init__(self, step: int) -> None:
        self.step, self.seen = step, 0
        self.began = self.counting = False

    def mark(self) -> None:
        """A step begins."""
        number, self.seen = self.seen, self.seen + 1
        if number == self.step:
            self._start()
        elif self.began:
            self.stop()
            raise WindowDone

    def stop(self) -> None:
        """Turn the counters off."""
        if self.counting:
            self.counting = False
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()

    def _start(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        self.began = self.counting = True


def main(step: str, find: str, module: str, script: str, *arguments: str) -> int:
    """Run the script with its arguments; the exit code is that of the script."""
    counted = CountedStep(int(step))
    home = os.getpid()
    kind = "none" if counted.step == EVERYTHING else find
    with own_streams(), StepFinder(counted.mark, kind):
        code = run_script(script, list(arguments), module == "module", _ignore)
    if os.getpid() == home:
        counted.stop()
    if not counted.began and counted.step != EVERYTHING and code == 0:
        return EXIT_NO_STEP
    return code


def _ignore(problem: str) -> None:
    """The traceback is printed, and there is no run record to keep the error."""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
