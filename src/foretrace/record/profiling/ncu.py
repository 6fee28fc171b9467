"""Runs Nsight Compute, and says in one line why it cannot count where it cannot.

Kernels keep the clocks and the caches that the program gives them (`--clock-control none`,
`--cache-control none`): counters are then those of the program and not of a cold start.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from foretrace.base.errors import MissingError, TraceError, UsageError, UserCodeError
from foretrace.base.patterns import regex

STDERR = 2
LARGEST = 256 << 20  # bytes of an export: those of an H200 have 2 kB a launch
EXIT_NO_STEP = 86  # of `counted`: the script ended before the step began
READS_ANOTHER = "`foretrace counters TRACE --ncu FILE.csv` reads the export of another machine"
NOT_FOUND = (
    "counting needs an NVIDIA GPU and Nsight Compute, and `ncu` is not in PATH: install the "
    f"package nsight-compute of the CUDA toolkit, or add its folder to PATH; {READS_ANOTHER}"
)
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_UNCHANGED = ("--clock-control", "none", "--cache-control", "none", "--target-processes", "all")
_EXPORT = ("--csv", "--page", "raw", "--print-units", "base")
_METRIC = regex(r"Failed to find metric (?:regex:)?['\"]?([\w.]+)")
# What Nsight Compute writes, and what to do about it. The first that is found counts.
_REASONS = {
    r"ERR_NVGPUCTRPERM": (
        "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or load the "
        "driver's module with NVreg_RestrictProfilingToAdminUsers=0; in a container add "
        f"--cap-add=SYS_ADMIN; {READS_ANOTHER}"
    ),
    r"driver resource was unavailable|another (?:tool|profiler)|DCGM": (
        "another tool holds the GPU's counters: stop it (`dcgmi profile --pause` for DCGM), and "
        "run this again"
    ),
    r"unrecogni[sz]ed option|unknown option": (
        "this `ncu` is too old for an option that counting needs: install a newer Nsight Compute"
    ),
    r"not supported on this device|[Uu]nsupported (?:GPU|device|driver)|driver is not compat": (
        "this `ncu` does not support the GPU or its driver: install the Nsight Compute of the "
        "driver's CUDA version"
    ),
    r"LaunchFailed|Failed to prepare kernel|out of memory": (
        "Nsight Compute could not run a kernel again: its memory does not fit a second time; "
        "count fewer with --kernel or --launches"
    ),
}


class Choosing(NamedTuple):
    """Which launches are counted: all, or those between the profiler's start and stop; a name, as a
    regular expression; the first so many.
    """

    inside: bool = False
    kernel: str | None = None
    limit: int | None = None

    def options(self) -> list[str]:
        """As `ncu` takes them."""
        found = ["--profile-from-start", "off"] if self.inside else []
        found += [] if self.kernel is None else ["--kernel-name", f"regex:{self.kernel}"]
        return found + ([] if self.limit is None else ["--launch-count", str(self.limit)])


class Counting(NamedTuple):
    """What Nsight Compute wrote: the text of its log, with the CSV in it, and its command."""

    log: str
    command: list[str]


def find_ncu() -> str:
    """The program `ncu`; raises the error that names the next step where there is none."""
    if found := shutil.which("ncu"):
        return found
    for place in _PLACES:
        for path in sorted(glob.glob(place), reverse=True):
            if os.access(path, os.X_OK):
                return path
    raise MissingError(NOT_FOUND)


def count(
    target: Sequence[str],
    metrics: Sequence[str],
    folder: Path,
    *,
    choice: Choosing,
    say: Callable[[str], None] = lambda text: None,
) -> Counting:
    """Count these metrics while `target` runs.

    A metric that this `ncu` does not know is left out, and counting starts again.
    """
    wanted = list(metrics)
    while wanted:
        done = _run(target, wanted, folder, choice)
        missing = [name for name in _METRIC.findall(done.log) if name in wanted]
        if not missing:
            return done
        say(f"this ncu or GPU has no {', '.join(missing)}: counted without")
        wanted = [name for name in wanted if name not in missing]
    raise MissingError("this `ncu` knows none of the metrics: install a newer Nsight Compute")


def _run(target: Sequence[str], metrics: Sequence[str], folder: Path, choice: Choosing) -> Counting:
    log = folder / "ncu.log"
    asked = [*choice.options(), "--metrics", ",".join(metrics)]
    command = [find_ncu(), *_EXPORT, *_UNCHANGED, *asked, "--log-file", str(log), *target]
    log.unlink(missing_ok=True)
    try:
        # what the script prints is no part of our answer
        code = subprocess.run(command, stdout=STDERR, check=False).returncode
    except OSError as problem:
        raise MissingError(f"{command[0]} cannot be run: {problem.strerror}") from problem
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if not _METRIC.search(text):
        _check(text, code)
    return Counting(text, command)


def _check(text: str, code: int) -> None:
    """Raise what the log says; warnings of a run that counted something pass."""
    counted = '"ID"' in text
    errors = "\n".join(line for line in text.splitlines() if line.startswith("==ERROR=="))
    for pattern, message in _REASONS.items():
        if re.search(pattern, errors, re.IGNORECASE):
            raise MissingError(message)
    if counted:
        return
    if "No kernels were profiled" in text:
        raise UsageError(
            "Nsight Compute counted no kernel: --kernel names none, or the step launches none"
        )
    returned = re.search(r"application returned an error code \((\d+)\)", text)
    if returned and int(returned[1]) == EXIT_NO_STEP:
        raise UsageError("under Nsight Compute the script ended before the step to count: --whole")
    if returned:
        raise UserCodeError(f"the script ended with exit code {returned[1]} under Nsight Compute")
    first = (errors or text or "it wrote nothing").strip().splitlines()[0]
    raise MissingError(f"`ncu` ended with exit code {code}: {first.removeprefix('==ERROR== ')}")


def exported(report: str) -> str:
    """The text of an export: of a CSV file as it is, of a report (`.ncu-rep`) through `ncu`."""
    if not report.endswith((".ncu-rep", ".nsight-cuprof-report")):
        if os.path.getsize(report) > LARGEST:
            raise TraceError(
                "E_TOO_LARGE", report, "larger than 256 MiB", hint="export a part of it"
            )
        with open(report, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()
    if not os.path.isfile(report):
        raise UsageError(f"no such report: {report}")
    try:
        command = [find_ncu(), "--import", report, *_EXPORT]
    except MissingError as problem:
        by_hand = f"ncu --import {report} --csv --page raw --print-units base > counters.csv"
        message = f"{report} needs `ncu` to be read: run `{by_hand}` where it is installed"
        raise MissingError(message) from problem
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it wrote nothing"]
        raise UsageError(f"`ncu` cannot read {report}: {said[0].removeprefix('==ERROR== ')}")
    return done.stdout
