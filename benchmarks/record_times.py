"""Is the step time that `foretrace record` keeps the time of a plain run?

    python benchmarks/record_times.py [--rounds 3] [--script mlp ...] [--json results.json]

Five scripts of different kinds run plainly and under `foretrace record`, in turns, each in a new
process. A plain run times its own loop: the card is waited for at the first and at the last timed
step. The figures are the median over the rounds of the kept time over the plain one, and the least
kept time over the least plain one: what else a machine does only adds to a time, and between two
processes of one script more than 3%. Where a difference comes from, as medians over the rounds:

- `clock`: the kept time over the loop's own clock for the same steps of the same process.
- `same_process`: the kept time over the steps of that process after those that foretrace timed.
- `left_behind`: these later steps over the same ones of the plain process.
- `early`: the steps that foretrace timed, in the plain process, over the steps which that times.

The product of `same_process` and `left_behind` is about the whole. A ratio is null where too few
steps are left. The loop's clock for some of its steps is an event on a GPU. Runs on a GPU where
there is one, else on the CPU; there `OMP_NUM_THREADS=1` is steadier. On a host that others share,
give it two cores of its own (`taskset -c 4,5`) and 20 rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch

STEPS, FIRST = 260, 100  # of a script, and the first one that a plain run times
FEWEST = 30  # later steps; fewer are too short to tell a difference
_HEAD = """
import json, time, torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
big = device == "cuda"
"""
_LOOP = """
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
def wait():
    if big:
        torch.cuda.synchronize()
def mark():
    if not big:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
def passed_ms(mark):
    return marks[0].elapsed_time(mark) if big else 1e3 * (mark - marks[0])
marks = []
for at in range(STEPS):
    if at == FIRST:
        wait()
        began = time.perf_counter()
    marks.append(mark())
    loss = compute(*batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
marks.append(mark())
wait()
step_ms = 1e3 * (time.perf_counter() - began) / (STEPS - FIRST)
print("TIMES", json.dumps([step_ms, [passed_ms(mark) for mark in marks]]))
"""
_SCRIPTS = {
    "mlp": """
wide = 2048 if big else 256
model = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))
batch = (torch.randn(1024 if big else 128, wide, device=device),)
def compute(x):
    return model(x).square().mean()
""",
    "transformer": """
wide = 512 if big else 128
layer = nn.TransformerEncoderLayer(wide, 8, 4 * wide, batch_first=True, dropout=0.0)
model = nn.TransformerEncoder(layer, 4 if big else 2)
batch = (torch.randn(16 if big else 4, 256 if big else 64, wide, device=device),)
def compute(x):
    return model(x).square().mean()
""",
    "conv": """
def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
model = nn.Sequential(block(3, 32), block(32, 64), nn.MaxPool2d(2), block(64, 64))
size = 128 if big else 32
batch = (torch.randn(32 if big else 8, 3, size, size, device=device),)
def compute(x):
    return model(x).mean()
""",
    "lstm": """
model = nn.LSTM(256 if big else 96, 512 if big else 96, 2, batch_first=True)
batch = (torch.randn(64 if big else 16, 128 if big else 32, 256 if big else 96, device=device),)
def compute(x):
    return model(x)[0].square().mean()
""",
    "small_ops": """
class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(64, 64) / 8 for _ in range(40))
    def forward(self, x):
        for weight in self.weights:
            x = torch.tanh(x @ weight) + x
        return x
model = Many()
batch = (torch.randn(64, 64, device=device),)
def compute(x):
    return model(x).square().mean()
""",
}


class Loop(NamedTuple):
    """What a script says of its loop: milliseconds of a timed step, and when each step began."""

    step_ms: float
    marks_ms: list[float]

    def of(self, steps: range) -> float:
        """Milliseconds of a step, for some of them."""
        return (self.marks_ms[steps.stop] - self.marks_ms[steps.start]) / len(steps)


Ratios = dict[str, float | None]


def main() -> None:
    """Measure, print, and keep the numbers where a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--script", action="append", choices=_SCRIPTS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.script or _SCRIPTS:
            script = Path(folder) / f"{name}.py"
            steps = f"STEPS, FIRST = {STEPS}, {FIRST}\n"
            script.write_text(_HEAD + steps + _SCRIPTS[name] + _LOOP)
            rows.append(measured(script, options.rounds))
            said = "{script:12} plain {plain_ms:8.3f} ms, kept {kept_ms:8.3f} ms, {ratio:.3f}x"
            print(said.format(**rows[-1]), rows[-1]["medians"], flush=True)
            if options.json:  # after each script, so that a run that ends early loses nothing
                keep(options.json, rows)


def keep(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows, and what they depend on."""
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    command = shlex.join(["python", *sys.argv])
    answer = {"command": command, "device": where, "torch": str(torch.__version__)}
    file.write_text(json.dumps(answer | {"scripts": rows}, indent=1) + "\n")


def measured(script: Path, rounds: int) -> dict[str, Any]:
    """Plain and recorded runs in turns."""
    pairs, hosts, ratios = [], [], []
    for _ in range(rounds):
        plain, (recorded, record) = _plain(script), _recorded(script)
        kept_ms = record["timing"]["wall_ns_per_call"] / 1e6
        pairs.append((plain.step_ms, kept_ms))
        hosts.append(record["timing"]["host_ns_per_call"] / 1e6)
        ratios.append({"kept": kept_ms / plain.step_ms, **_parts(plain, recorded, record)})
    plain_ms, kept_ms = (min(times) for times in zip(*pairs, strict=True))
    return {
        "script": script.stem,
        "plain_ms": round(plain_ms, 4),
        "kept_ms": round(kept_ms, 4),
        "ratio": round(kept_ms / plain_ms, 4),
        "medians": {name: _median([each[name] for each in ratios]) for name in ratios[0]},
        "pairs_ms": [[round(time, 4) for time in pair] for pair in pairs],
        "kept_host_ms": [round(time, 4) for time in hosts],
        "rounds": [{name: _median([each[name]]) for name in each} for each in ratios],
    }


def _parts(plain: Loop, recorded: Loop, record: dict[str, Any]) -> Ratios:
    """Where a difference comes from, if the loop went on after its steps were timed."""
    timing, ended = record["timing"], record["script"]["steps_seen"] - 1
    later = range(max(FIRST, ended + 2), STEPS)  # without the step in which the record is written
    if len(later) < FEWEST:
        return dict.fromkeys(("clock", "same_process", "left_behind", "early"))
    kept_ms = timing["wall_ns_per_call"] / 1e6
    timed = range(ended - timing["calls_timed"], ended)
    return {
        "clock": kept_ms / recorded.of(timed),
        "same_process": kept_ms / recorded.of(later),
        "left_behind": recorded.of(later) / plain.of(later),
        "early": plain.of(timed) / plain.step_ms,
    }


def _median(ratios: list[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return round(statistics.median(known), 4) if known else None


def _plain(script: Path) -> Loop:
    return _loop(_run([sys.executable, script.name], script.parent))


def _recorded(script: Path) -> tuple[Loop, dict[str, Any]]:
    """The loop, and the run record beside the trace."""
    options = ["--no-look", "--overwrite", "--out", "kept"]
    line = [sys.executable, "-m", "foretrace", "record", *options, script.name]
    said = _run(line, script.parent)
    return _loop(said), json.loads((script.parent / "kept" / f"{script.stem}.run.json").read_text())


def _loop(said: str) -> Loop:
    times = next(line for line in said.splitlines() if line.startswith("TIMES"))
    return Loop(*json.loads(times.removeprefix("TIMES")))


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
