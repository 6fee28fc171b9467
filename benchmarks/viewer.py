"""How quickly the viewer answers, and how much memory it holds:
`python benchmarks/viewer.py --events 5000000`.

The recorded training steps are repeated, each turn a little slower than the one before, until there
are `--events` events. Then the viewer opens the file, and this script requests tiles as the page
does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from foretrace.read.recordings import traces


def write(path: Path, events: int) -> None:
    """A trace of at least so many events, written turn by turn."""
    with gzip.open(traces()["llama_train_eager"]) as file:
        document: dict[str, Any] = json.load(file)
    once = [event for event in document.pop("traceEvents") if event.get("ph") != "M"]
    first = min(event["ts"] for event in once if event["ph"] == "X")
    span = 1.3 * (max(event["ts"] for event in once if event["ph"] == "X") - first)
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps(document)[:-1] + ',"traceEvents":[')
        for turn in range(-(-events // len(once))):
            records = (
                json.dumps(_moved(event, turn, first, span), separators=(",", ":"))
                for event in once
            )
            out.write((",\n" if turn else "\n") + ",\n".join(records))
        out.write("]}")


def _moved(event: dict[str, Any], turn: int, first: float, span: float) -> dict[str, Any]:
    slower, moved = 1 + 0.00137 * turn, dict(event)
    moved["ts"] = round(first + (event["ts"] - first) * slower + turn * span, 3)
    if "dur" in event:
        moved["dur"] = round(event["dur"] * slower, 3)
    if event["name"].startswith("ProfilerStep#"):
        moved["name"] = f"ProfilerStep#{int(event['name'][13:]) + 3 * turn}"
    ids = ("correlation", "External id")
    moved["args"] = {
        key: value + turn * 10_000_000 if key in ids else value
        for key, value in event.get("args", {}).items()
    }
    return moved


def measure(path: Path) -> None:
    """Serve the file in a process of its own and ask for tiles of the whole, of a step and of a
    millisecond.
    """
    command = [sys.executable, "-m", "foretrace", "serve", str(path), "--no-browser", "--no-cache"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            _ask(server.stdout.readline().strip(), server.pid)
        finally:
            server.terminate()


def _ask(address: str, pid: int) -> None:
    began = time.monotonic()
    while (facts := _get(address + "trace/0"))["state"] == "opening":
        time.sleep(0.5)
    timeline = facts["entry"]["timeline"]
    print(
        f"{len(facts['entry']['kernels']):,} kernels by name and sizes, open after "
        f"{time.monotonic() - began:.0f} s"
    )
    step = timeline["steps"][len(timeline["steps"]) // 2]
    views = {
        "whole": (0, timeline["end"]),
        "a step": (step["start"], step["last"]),
        "a millisecond": (step["start"], step["start"] + 10**6),
    }
    for name, (start, end) in views.items():
        times = [
            _timed(f"{address}trace/0/tile?from={start}&to={end}&width=2000") for _ in range(20)
        ]
        print(
            f"tile of {name}: median {statistics.median(times):.0f} ms, {min(times):.0f} to "
            f"{max(times):.0f} ms"
        )
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(f"most memory held by the server: {int(peak.split()[1]) / 1e6:.2f} GB")


def _get(address: str) -> Any:
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


def _timed(address: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=500_000)
    wanted = parser.parse_args().events
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "large.json", wanted)
        measure(Path(folder) / "large.json")
