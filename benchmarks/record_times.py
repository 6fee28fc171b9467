"""Is the step time that `foretrace record` keeps the time of a plain run?

    python benchmarks/record_times.py [--rounds 5] [--script mlp ...] [--json results.json]

Five scripts of different kinds run plainly and under `foretrace record`, in turns, each in a new
process. A plain run times its own loop: the card is waited for at the first and at the last timed
step. The figure is the least kept time over the least plain one: what else a machine does only adds
to a time, and between two processes of one script more than 3%. Runs on a GPU where there is one,
else on the CPU; there `OMP_NUM_THREADS=1` is steadier.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

_HEAD = """
import time, torch
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
STEPS, FIRST = (300, 100) if big else (120, 40)
for at in range(STEPS):
    if at == FIRST:
        wait()
        began = time.perf_counter()
    loss = compute(*batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
wait()
print("STEP_MS", 1e3 * (time.perf_counter() - began) / (STEPS - FIRST))
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


def main() -> None:
    """Measure, print, and keep the numbers where a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--script", action="append", choices=_SCRIPTS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.script or _SCRIPTS:
            script = Path(folder) / f"{name}.py"
            script.write_text(_HEAD + _SCRIPTS[name] + _LOOP)
            rows.append(measured(script, options.rounds))
            said = "{script:12} plain {plain_ms:8.3f} ms, kept {kept_ms:8.3f} ms, {ratio:.3f}x"
            print(said.format(**rows[-1]), flush=True)
            if options.json:  # after each script, so that a run that ends early loses nothing
                keep(options.json, rows)


def keep(file: Path, rows: list[dict[str, object]]) -> None:
    """Write the rows, and what they depend on."""
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    command = shlex.join(["python", *sys.argv])
    answer = {"command": command, "device": where, "torch": str(torch.__version__)}
    file.write_text(json.dumps(answer | {"scripts": rows}, indent=1) + "\n")


def measured(script: Path, rounds: int) -> dict[str, object]:
    """Plain and recorded runs in turns."""
    pairs, hosts = [], []
    for _ in range(rounds):
        plain, (kept, host) = _plain(script), _kept(script)
        pairs.append((plain, kept))
        hosts.append(host)
    plain, kept = (min(times) for times in zip(*pairs, strict=True))
    return {
        "script": script.stem,
        "plain_ms": round(plain, 4),
        "kept_ms": round(kept, 4),
        "ratio": round(kept / plain, 4),
        "pairs_ms": [[round(time, 4) for time in pair] for pair in pairs],
        "kept_host_ms": [round(time, 4) for time in hosts],
    }


def _plain(script: Path) -> float:
    said = _run([sys.executable, script.name], script.parent)
    return float(said.split("STEP_MS")[1].split()[0])


def _kept(script: Path) -> tuple[float, float]:
    """Milliseconds of a step in the run record beside the trace, and of its host alone."""
    line = [
        sys.executable,
        "-m",
        "foretrace",
        "record",
        "--overwrite",
        "--out",
        "kept",
        script.name,
    ]
    _run(line, script.parent)
    record = json.loads((script.parent / "kept" / f"{script.stem}.run.json").read_text())
    timing = record["timing"]
    return timing["wall_ns_per_call"] / 1e6, timing["host_ns_per_call"] / 1e6


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
