"""A script once under torch's profiler and twice under Nsight Compute: a trace and two exports.

Each run is a process of its own, so that none finds the GPU's memory taken by another.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from foretrace.base import files
from foretrace.base.errors import ForetraceError, MissingError, UsageError, UserCodeError
from foretrace.model import opening
from foretrace.model.counters import LAST, Wanted
from foretrace.read.ncu import read_export
from foretrace.record.profiling import counted
from foretrace.record.profiling.counted import EVERYTHING
from foretrace.record.profiling.ncu import Choosing, count, find_ncu
from foretrace.schema.run_record import content_beside
from foretrace.schema.traffic import IN_ONE_PASS, IN_SEVERAL
from foretrace.show.overview.counter_document import Exported


class CountedScript(NamedTuple):
    """The script and how to count it; `whole` counts every launch instead of the last step's.

    `recording` are further options of `foretrace record`. By default the recorded script ends
    after its steps.
    """

    script: str
    arguments: tuple[str, ...]
    module: bool = False
    steps: int = 3
    warmup: int = 3
    wait: int = 1
    find: str = "auto"
    kernel: str | None = None
    limit: int | None = None
    whole: bool = False
    quick: bool = False
    recording: tuple[str, ...] = ("--stop",)

    def command(self) -> list[str]:
        """The script and its arguments."""
        return [self.script, *self.arguments]


def count_script(
    wanted: CountedScript, folder: Path, say: Callable[[str], None]
) -> tuple[Path, list[Exported]]:
    """Record the script, count its last recorded step, and read what was counted."""
    if not wanted.module and not Path(wanted.script).is_file():
        raise UsageError(f"no such script: {wanted.script}")
    find_ncu()
    need_nvidia()
    say("1. under torch's profiler")
    trace = _record(wanted, folder)
    step, index = _step_of(trace, wanted)
    inside = step != EVERYTHING
    choice = Choosing(inside, wanted.kernel, wanted.limit)
    kind = "module" if wanted.module else "script"
    target = [sys.executable, "-m", counted.__name__, str(step), wanted.find, kind]
    found = []
    groups = (IN_ONE_PASS,) if wanted.quick else (IN_ONE_PASS, IN_SEVERAL)
    for number, metrics in enumerate(groups, 1):
        say(f"{number + 1}. under Nsight Compute: {'one pass' if number == 1 else 'the rest'}")
        with files.scratch() as scratch:
            done = count([*target, *wanted.command()], metrics, scratch, choice=choice, say=say)
        place = Path(f"{str(trace).removesuffix('.gz').removesuffix('.json')}.ncu{number}.csv")
        files.write_text(place, done.log)
        known = Wanted(index, wanted.kernel, wanted.limit)
        found.append(Exported(read_export(done.log, str(place)), known, shlex.join(done.command)))
    return trace, found


def need_nvidia() -> None:
    """Raise the error of a machine that has no counters to read."""
    import torch

    if torch.version.hip:
        raise MissingError("Nsight Compute counts on NVIDIA GPUs alone, and this torch is for AMD")
    if not torch.cuda.is_available():
        raise MissingError(
            "counting needs an NVIDIA GPU, and torch finds none: check nvidia-smi and that torch "
            "was built for CUDA"
        )


def _record(wanted: CountedScript, folder: Path) -> Path:
    options = ["--steps", wanted.steps, "--warmup", wanted.warmup, "--wait", wanted.wait]
    options += ["--steps-at", wanted.find, "-o", folder, "--json", *wanted.recording]
    command = [sys.executable, "-m", "foretrace", "record", *map(str, options)]
    command += [*(["-m"] if wanted.module else []), *wanted.command()]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    traces = (answer.get("traces") or []) if isinstance(answer, dict) else []
    if done.returncode or not traces:
        code = done.returncode
        message = f"the script ended with exit code {code} under torch's profiler"
        raise UserCodeError(message) if answer else ForetraceError(message)
    return Path(traces[0])


def _step_of(trace: Path, wanted: CountedScript) -> tuple[int, int | None]:
    """The last recorded step: its number in the script from 0, and its place in the trace."""
    steps = opening.open(trace).steps
    if wanted.whole or not steps.height or steps["number"][-1] is None:
        return EVERYTHING, None
    record = msgspec.json.decode(content_beside(str(trace)) or b"{}", type=dict[str, msgspec.Raw])
    profile = json.loads(bytes(record.get("profile", b"{}")))
    if "own_profiler" in record:  # its steps have numbers of their own
        return EVERYTHING, None
    first = wanted.warmup if profile.get("steps") is not None else 0
    return first + int(steps["number"][-1]), LAST
