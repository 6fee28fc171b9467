"""How fast a large trace opens, against the tools people use today, in one run on one file.

    python benchmarks/ingest.py                      # builds a 190 MB trace, runs everything,
                                                     prints a table
    python benchmarks/ingest.py --json results.json  # the same, and keeps the numbers

The trace is a recorded one repeated, with times, flow ids, correlations and external ids shifted so
that every copy is a stretch of its own. Each contender runs in a process of its own, from process
start to its answer, and the process tree's peak memory is watched. Contenders take turns, so that
what else the machine does falls on all of them. The gzipped file and the plain one are read with 1,
2, 4, 8 and 16 cores, as far as the machine has them. HTA (PyPI `traceinsight`) needs an environment
of its own: it is made in a temporary folder with pip unless `--hta PYTHON` names one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

RECORDED = (
    Path(__file__).resolve().parents[1]
    / "src/foretrace/read/recordings/h200/llama_train_eager.json.gz"
)
STRETCH_US = 1_000_000  # longer than the recording, so that copies do not overlap
STRETCH_ID = 1_000_000
CORES = (1, 2, 4, 8, 16)
Run = Callable[[], tuple[float, float]]
Rows = dict[str, dict[str, float]]

HTA = """
import sys, logging; logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
a.get_temporal_breakdown(visualize=False); a.get_gpu_kernel_breakdown(visualize=False)
"""
LOADS = "import {0}, sys; {0}.loads(open(sys.argv[1], 'rb').read())"


def build(path: Path, megabytes: float) -> int:
    """Write a trace of at least that size; returns how many events it holds."""
    raw = gzip.decompress(RECORDED.read_bytes())
    start = raw.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    stop = raw.rindex(b"  ],\n")
    body, events = raw[start:stop].rstrip(), raw.count(b'"ph":')
    copies = -(-int(megabytes * 1e6) // len(body))
    with path.open("wb") as out:
        out.write(raw[:start])
        for copy in range(copies):
            out.write((b"," if copy else b"") + shifted(body, copy))
        out.write(b"\n" + raw[stop:])
    return events * copies


def shifted(body: bytes, copy: int) -> bytes:
    """One copy of the events, later in time and with ids of its own."""
    if not copy:
        return body
    body = re.sub(
        rb'"ts": (\d+)\.(\d+)',
        lambda m: b'"ts": %d.%s' % (int(m[1]) + copy * STRETCH_US, m[2]),
        body,
    )
    names = rb'"(id|correlation|External id)": (\d+)'
    return re.sub(names, lambda m: b'"%s": %d' % (m[1], int(m[2]) + copy * STRETCH_ID), body)


def packed(path: Path) -> Path:
    """The gzipped form of a file, as the profiler writes it."""
    target = path.with_suffix(".json.gz")
    with path.open("rb") as plain, gzip.open(target, "wb", compresslevel=6) as out:
        shutil.copyfileobj(plain, out, 1 << 20)
    return target


def measured(command: list[str], **options: Any) -> tuple[float, float]:
    """(seconds, peak megabytes of the process and its children together) of one command."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options
    )
    peaks = [0.0]

    def watch() -> None:
        while process.poll() is None:
            peaks.append(tree_megabytes(process.pid))
            time.sleep(0.1)  # reading the memory map of a large process is not free

    watcher = threading.Thread(target=watch)
    watcher.start()
    complaints = process.communicate()[1]
    seconds = time.perf_counter() - began
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[:4]} failed: {complaints.decode()[-600:]}")
    return seconds, max(peaks)


def tree_megabytes(pid: int) -> float:
    """Proportional memory of a process and its children: a page shared after a fork counts once."""
    total = 0
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
            with open(f"/proc/{one}/task/{one}/children") as file:
                waiting += [int(child) for child in file.read().split()]
        except (OSError, StopIteration, ProcessLookupError):
            continue
    return total / 1000


def hta_python(given: str | None, scratch: Path) -> str | None:
    """A Python with HTA: the one given, or one made in `scratch`; None where pip fails."""
    if given:
        return given
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", scratch / "hta"], check=True, capture_output=True
        )
        python = str(scratch / "hta/bin/python")
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "traceinsight"], check=True, capture_output=True
        )
        return python
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"HTA left out: {error}", file=sys.stderr)
        return None


def look(trace: Path, *options: str) -> list[str]:
    """The command that is measured."""
    return [sys.executable, "-m", "foretrace", "look", str(trace), "--json", *options]


def on_cores(trace: Path, cores: int) -> Run:
    """A look without the cache that may use only some of the cores."""
    some = sorted(os.sched_getaffinity(0))[:cores]
    command = look(trace, "--no-cache")
    return lambda: measured(command, preexec_fn=lambda: os.sched_setaffinity(0, some))


def contenders(trace: Path, scratch: Path, hta: str | None) -> dict[str, Run]:
    """Name -> one measured run."""
    cache = os.environ | {"FORETRACE_CACHE": str(scratch / "cache")}

    def first() -> tuple[float, float]:
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        return measured(look(trace), env=cache)

    def second() -> tuple[float, float]:
        return measured(look(trace), env=cache)

    forms = {"plain": trace, "gzipped": packed(trace)}
    runs = {
        f"look, {form}, cores: {count}": on_cores(path, count)
        for count in CORES
        if count <= len(os.sched_getaffinity(0))
        for form, path in forms.items()
    }
    return runs | {
        "foretrace look, first": first,
        "foretrace look, second": second,
        "orjson.loads": lambda: measured(
            [sys.executable, "-c", LOADS.format("orjson"), str(trace)]
        ),
        "json.loads": lambda: measured([sys.executable, "-c", LOADS.format("json"), str(trace)]),
        "HTA load + two breakdowns": lambda: measured([str(hta), "-c", HTA, str(trace)]),
    }


def alternated(runs: dict[str, Run], repeat: int) -> Rows:
    """Every run `repeat` times in turns; the slowest contenders run once."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for turn in range(repeat):
        for name, once in runs.items():
            if not turn or ("HTA" not in name and name != "json.loads"):
                found[name].append(once())
                print(f"  {name}: {found[name][-1][0]:.2f} s", file=sys.stderr)
    return {
        name: {
            "seconds": median(run[0] for run in each),
            "least_seconds": min(run[0] for run in each),
            "peak_mb": max(run[1] for run in each),
        }
        for name, each in found.items()
    }


def main() -> None:
    """Build the trace, run every contender, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=190)
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each fast contender; the median counts"
    )
    parser.add_argument("--hta", help="a Python that has traceinsight installed")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = run(options, Path(folder))
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def run(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Run every contender on one trace."""
    trace, large = scratch / "trace.json", scratch / "large.json"
    events = build(trace, options.megabytes)
    os.sync()
    size = trace.stat().st_size / 1e6
    print(f"{size:.0f} MB, {events:,} events, {os.cpu_count()} cores", file=sys.stderr)
    peers = None if options.no_peers else hta_python(options.hta, scratch)
    names = contenders(trace, scratch, peers)
    if not peers:
        del names["HTA load + two breakdowns"]
    ours = {name: run for name, run in names.items() if "look" in name}
    rows = alternated(ours if options.no_peers else names, options.repeat)
    build(large, options.megabytes * 4)
    forms = {"plain": large, "gzipped": packed(large)}
    os.sync()  # the disk must not be busy with what was just written
    most = len(os.sched_getaffinity(0))
    rows |= alternated(
        {f"look, {form}, 4x the file": on_cores(path, most) for form, path in forms.items()},
        min(options.repeat, 2),
    )
    machine = {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }
    return {
        "command": "python benchmarks/ingest.py",
        "machine": machine,
        "megabytes": size,
        "events": events,
        "rows": rows,
    }


def table(results: dict[str, Any]) -> str:
    """Seconds and peak memory of every contender, beside ours."""
    size, rows = results["megabytes"], results["rows"]
    ours = rows["foretrace look, first"]["seconds"]
    lines = [
        f"{'':28} {'seconds':>8} {'least':>6} {'x of ours':>10} {'peak MB':>8} {'x of file':>10}"
    ]
    for name, row in rows.items():
        file = size * (4 if "4x" in name else 1)
        lines.append(
            f"{name:28} {row['seconds']:8.2f} {row['least_seconds']:6.2f} "
            f"{row['seconds'] / ours:10.2f} {row['peak_mb']:8.0f} {row['peak_mb'] / file:10.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
