"""How long a command takes before it does any work, against `import polars` alone.

    python benchmarks/startup.py                      # prints a table
    python benchmarks/startup.py --json results.json  # the same, and keeps the numbers

The commands take turns, each in a fresh process, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from foretrace.read.recordings import traces

# A whole event list of a small program is about this large.
SMALL_BYTES = 5_000


def small_trace(folder: Path) -> Path:
    """The shortest prefix of a recording with whole kernels, about 5 kB of JSON."""
    document = json.loads(gzip.decompress(traces()["matmul_add_64_eager"].read_bytes()))
    events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    kept = [event for event in events if event.get("cat") == "kernel"][:2]
    linked = {event["args"]["correlation"] for event in kept}
    kept += [event for event in events if event.get("args", {}).get("correlation") in linked]
    kept += [event for event in events if str(event.get("cat")) == "cpu_op"]
    document["traceEvents"] = []
    for event in kept:
        document["traceEvents"].append(event)
        if len(json.dumps(document)) > SMALL_BYTES:
            break
    path = folder / "small.json"
    path.write_text(json.dumps(document))
    return path


def seconds(command: list[str], folder: str) -> float:
    """The wall time of one fresh process; byte code is kept, as it is for an installed package."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/byte-code"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print, and keep the numbers where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = small_trace(Path(folder))
        commands = {
            "import polars": [sys.executable, "-c", "import polars"],
            "foretrace look": [sys.executable, "-m", "foretrace", "look", str(trace)],
            "foretrace --help": [sys.executable, "-m", "foretrace", "--help"],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.rounds + 1):
            for name, command in commands.items():
                taken[name].append(seconds(command, folder))
        size = trace.stat().st_size
    times = {name: median(values[1:]) for name, values in taken.items()}  # the first fills caches
    base = times["import polars"]
    for name, value in times.items():
        print(f"{name:18} {value * 1e3:6.0f} ms  {value / base:.2f}x")
    if options.json:
        answer = {
            "command": "python benchmarks/startup.py",
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "trace_bytes": size,
            "rounds": options.rounds,
            "seconds": {name: round(value, 4) for name, value in times.items()},
        }
        options.json.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
