"""Reading needs no torch: shown where torch cannot be imported, and from a built wheel in a bare
environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml

from foretrace import cli
from foretrace.base.version import __version__

ROOT = Path(__file__).resolve().parents[1]

BLOCKED = """
import sys
for name in ("torch", "triton", "transformers", "pandas", "pyarrow"):
    sys.modules[name] = None
from foretrace.read import recordings
from foretrace.cli import main
assert main(["tour", "-o", sys.argv[1]]) == 0
assert main(["lab", "ladder", "--recorded", "h200", "--only", "linear"]) == 0  # the tour climbs all
assert main(["lab", "ladder"]) == 4
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


@pytest.mark.sweep  # it builds, and asks the package index
def test_the_built_wheel_opens_the_shipped_traces(tmp_path: Path) -> None:
    """The sdist and the wheel of a release, a fresh environment, the dependencies that it names and
    nothing else.
    """
    built = released("Build", DIST=str(tmp_path))
    assert built.returncode == 0, built.stderr
    wheel, _ = next(tmp_path.glob("foretrace-*.whl")), next(tmp_path.glob("foretrace-*.tar.gz"))
    source = ROOT / "src"
    files = (path for path in (source / "foretrace").rglob("*") if path.is_file())
    wanted = {str(path.relative_to(source)) for path in files if path.suffix != ".pyc"}
    held = zipfile.ZipFile(wheel)
    assert not wanted - set(held.namelist())
    entries = next(name for name in held.namelist() if name.endswith("entry_points.txt"))
    assert "foretrace = foretrace.__main__:run" in held.read(entries).decode()  # for pipx run
    venv.create(tmp_path / "bare")
    python = tmp_path / "bare/bin/python"
    pins = re.findall(r"^[\w.-]+==\S+", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE)
    lock = tmp_path / "run.txt"  # a wheel that was just built has no hash there
    lock.write_text("\n".join(pins))
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", wheel]
    installed = subprocess.run([*pip, "-c", lock], capture_output=True, text=True)
    if installed.returncode:
        # no package index: what the environment of the tests has must do
        subprocess.run([*pip, "--no-deps"], check=True, capture_output=True)
        here = next((tmp_path / "bare").rglob("site-packages"))
        (here / "shared.pth").write_text(f"{Path(polars.__file__).parents[1]}\n")
    else:
        assert not list((tmp_path / "bare").rglob("site-packages/torch"))
        files = [path for path in (tmp_path / "bare").rglob("*") if not path.is_symlink()]
        used = sum(path.stat().st_size for path in files if path.is_file())
        assert used < 250 << 20
    ran = {
        words: subprocess.run(
            [tmp_path / "bare/bin/foretrace", *words.split()],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "FORETRACE_CACHE": str(tmp_path / "cache")},
        )
        for words in ("--version", "look mlp_eager", "explain casts", "docs steering")
    }
    for words, done in ran.items():
        assert done.returncode == 0, (words, done.stderr)
    assert ran["--version"].stdout.startswith(f"foretrace {__version__}\npython 3.")
    assert "GPU-BOUND" in ran["look mlp_eager"].stdout


def test_the_version_names_torch_and_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli._card(tmp_path) == "card: no NVIDIA driver"
    for place in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "gpus" / place).mkdir(parents=True)
        about = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\n"
        (tmp_path / "gpus" / place / "information").write_text(about)
    kernel = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2025\n"
    (tmp_path / "version").write_text(kernel)
    assert cli._card(tmp_path) == "card NVIDIA H200, NVIDIA H200 (driver 570.86.15)"
    assert cli.installed("click") == metadata.version("click")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/nowhere"])
    assert "torch: not installed (reading needs none)" in cli.version_lines()
    (tmp_path / "torch-2.13.0+cu130.dist-info").mkdir()
    assert "torch 2.13.0+cu130" in cli.version_lines()


def _workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    return found


def released(step: str, root: Path = ROOT, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a step of the release, with this Python."""
    steps = _workflow()["jobs"]["build"]["steps"]
    script = next(each["run"] for each in steps if each.get("name", "").startswith(step))
    script = script.replace(".venv/bin/python", sys.executable)
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=root, env=os.environ | given, capture_output=True, text=True,
    )  # fmt: skip


def test_a_release_is_signed_and_brings_its_list() -> None:
    jobs = _workflow()["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}  # trusted publishing, no token
    assert jobs["publish"]["environment"] == "pypi"
    upload = jobs["publish"]["steps"][-1]
    assert upload["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert upload["with"] == {"attestations": True}
    assert "sbom.json" in jobs["release"]["steps"][-1]["run"]
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_a_tag_must_be_the_version_everywhere(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "src/foretrace/base/version.py", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    tag = f"v{__version__}"
    assert released("The tag", tmp_path, GITHUB_REF_NAME=tag).returncode == 0
    wrong = released("The tag", tmp_path, GITHUB_REF_NAME="v9.9.9")
    assert (wrong.returncode, wrong.stdout) == (1, "pyproject.toml is not of 9.9.9\n")
    (tmp_path / "CITATION.cff").write_text("version: 9.9.9\n")
    assert "CITATION.cff" in released("The tag", tmp_path, GITHUB_REF_NAME=tag).stdout


def test_the_citation_is_that_of_the_package() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cited.keys()  # what the format demands
    assert cited["authors"] == project["authors"]
    for key in ("version", "license", "keywords"):
        assert cited[key] == project[key]
    assert cited["abstract"] == project["description"]
