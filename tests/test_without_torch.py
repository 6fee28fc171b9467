"""Reading needs no torch: shown where torch cannot be imported, and from a built wheel in a bare
environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BLOCKED = """
import sys
for name in ("torch", "triton", "transformers", "pandas", "pyarrow"):
    sys.modules[name] = None
from foretrace.read import recordings
from foretrace.cli import main
assert main(["tour", "-o", sys.argv[1]]) == 0
assert main(["ladder", "--recorded", "h200", "--only", "linear"]) == 0  # the tour climbs all
assert main(["ladder"]) == 4
assert main(["why", "mlp_why", "--not-fused"]) == 0
for name in ("mlp_eager", "mlp_compiled"):  # the ladder reads them all
    assert main(["look", str(recordings.traces()[name]), "--json", "--no-cache"]) == 0
"""


def test_everything_reads_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, tmp_path / "tour.html"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    score = "121 hold, 5 do not hold, 17 hold on the A100, 1 imprecise, 6 inconclusive here"
    assert " ".join(done.stdout.split()).count(score) == 1
    assert done.stdout.index("The articles") < done.stdout.index("The report on both: ")
    assert done.stderr.count("pip install torch") == 1


def test_the_built_wheel_opens_the_shipped_traces(tmp_path: Path) -> None:
    """A wheel, a fresh environment, the dependencies it names and nothing else."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(tmp_path.glob("foretrace-*.whl"))
    source = ROOT / "src"
    files = (path for path in (source / "foretrace").rglob("*") if path.is_file())
    wanted = {str(path.relative_to(source)) for path in files if path.suffix != ".pyc"}
    assert not wanted - set(zipfile.ZipFile(wheel).namelist())
    venv.create(tmp_path / "bare")
    python = tmp_path / "bare/bin/python"
    pins = re.findall(r"^[\w.-]+==\S+", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE)
    lock = tmp_path / "run.txt"  # a wheel that was just built has no hash there
    lock.write_text("\n".join(pins))
    installed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "-q",
            "--no-compile",
            wheel,
            "-c",
            lock,
        ],
        capture_output=True,
        text=True,
    )
    if installed.returncode:
        pytest.skip(f"no package index can be reached: {installed.stderr.strip().splitlines()[-1]}")
    assert not list((tmp_path / "bare").rglob("site-packages/torch"))
    compared = subprocess.run(
        [tmp_path / "bare/bin/foretrace", "compare", "mlp_eager", "mlp_compiled"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert compared.returncode == 0, compared.stderr
    assert "mlp_eager" in compared.stdout
