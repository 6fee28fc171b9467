"""What is sent with a script, and what the other machine runs."""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import zipfile
from pathlib import Path

import pytest

from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, UsageError
from foretrace.cli.remote import command
from foretrace.read.recordings import traces
from foretrace.record.remote import plan as plan_module
from foretrace.record.remote.plan import (
    Arrivals,
    RemotePlan,
    checksums,
    inline_metadata,
    needed_files,
    plan_run,
    seconds_of,
)

SCRIPT = '''"""A script."""
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.9", "foretrace[ladder]"]
#
# [tool.uv]
# ///
import helper, torch
def late():
    from package.inner import thing
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    for name, text in {
        "my train.py": SCRIPT,
        "helper.py": "import other",
        "other.py": "import helper",
        "package/__init__.py": "",
        "package/inner.py": "from . import deep",
        "package/deep.py": "",
        ".env": "KEY=1",
        "unrelated.py": "",
        "data.bin": "1",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "my train.py"


def test_what_a_script_imports_is_sent_and_nothing_else(script: Path) -> None:
    modules = {"my train.py", "helper.py", "other.py"}
    package = {f"package/{name}.py" for name in ("__init__", "inner", "deep")}
    assert set(needed_files(script)) == modules | package
    assert "data.bin" in needed_files(script, (str(script.parent / "data.bin"),))
    script.write_text("def broken(:")
    with pytest.raises(UsageError, match="not a Python script"):
        needed_files(script)


def test_inline_metadata_becomes_packages(script: Path) -> None:
    chosen = {"packages": ("einops",), "install": "foretrace", "record": "--why --steps 5"}
    plan = plan_run(script, ("--lr", "1 e"), **chosen)
    assert plan.packages[1:] == ("torch", "torch==2.9", "foretrace[ladder]", "einops")
    assert plan.recording.endswith("--why --steps 5 'my train.py' --lr '1 e'")
    assert plan.installing.startswith("uv venv --quiet --python '>=3.11' .venv && uv pip install")
    assert inline_metadata(script.parent / "helper.py") == {}
    script.write_text("# /// script\n# dependencies = [\n# ///\n")
    with pytest.raises(UsageError, match="PEP 723"):
        inline_metadata(script)


def test_a_wheel_is_sent_and_installed(script: Path, tmp_path: Path) -> None:
    made = tmp_path / "dist" / "foretrace-9-py3-none-any.whl"
    made.parent.mkdir()
    made.write_bytes(b"")
    plan = plan_run(script, (), install=str(made), python="python3")
    assert plan.files[made.name] == made
    assert plan.recording.startswith("python3 -m foretrace record")
    assert f"python3 -m pip install --quiet ./{made.name} torch" in plan.container(600)
    assert "uv" not in plan.container(600)


def test_a_foretrace_of_no_index_sends_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        """As `pip install .` leaves it, and then as an index does."""

        url: str | None = "{}"

        def read_text(self, name: str) -> str | None:
            return self.url if name == "direct_url.json" else f"{name} of the tests"

    installed = Installed()
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(plan_module, "distribution", lambda name: installed)
    with zipfile.ZipFile(plan_module.own_requirement()) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith("RECORD"))
        lines = csv.reader(archive.read(about).decode().splitlines())
        sizes = {name: int(size or 0) for name, _, size in lines}
        assert archive.read(about.replace("RECORD", "METADATA")) == b"METADATA of the tests"
        assert {name: archive.getinfo(name).file_size for name in names - {about}} == {
            name: size for name, size in sizes.items() if name != about
        }
    assert {"foretrace/cli/record.py", "foretrace/read/recordings/__init__.py"} < names
    assert not [name for name in names if name.endswith((".gz", ".pyc"))]
    installed.url = None
    assert str(plan_module.own_requirement()).startswith("foretrace==")


@pytest.mark.parametrize("code", [0, 7])
def test_what_a_container_runs(tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines as a shell runs them, with folders of this test in the place of the job's."""
    mount, programs = tmp_path / "mount", tmp_path / "programs"
    monkeypatch.setattr(plan_module, "MOUNT", str(mount))
    monkeypatch.setattr(plan_module, "_WORK", str(tmp_path / "work"))
    (mount / "code").mkdir(parents=True)
    (mount / "code" / "t.py").write_text("")
    programs.mkdir()
    record = f"mkdir -p 'traces/a b'; cp {traces()['linear_eager']} 'traces/a b/'; exit {code}"
    make = f'mkdir -p .venv/bin; printf "#!/bin/sh\\n{record}" > .venv/bin/foretrace'
    (programs / "uv").write_text(f"#!/bin/sh\n{make}; chmod +x .venv/bin/foretrace\n")
    (programs / "uv").chmod(0o755)
    plan = RemotePlan("run", "t.py", (), {}, ("foretrace", "torch"))
    words = ["sh", "-c", plan.container(600)]
    done = subprocess.run(words, env={"PATH": f"{programs}:/usr/bin:/bin"}, check=False)
    assert done.returncode == code
    (trace,) = (mount / "traces").rglob("*.gz")
    name = trace.relative_to(mount).as_posix()
    sums = checksums((mount / "SHA256SUMS").read_text())
    assert sums == {name: hashlib.sha256(trace.read_bytes()).hexdigest()}


def test_the_page_names_the_default_image() -> None:
    image = next(each.default for each in command.params if each.name == "image")
    page = (Path(__file__).parents[3] / "docs/remote.md").read_text()
    assert f"The default, `{image}`, is" in page


def test_a_limit_of_time() -> None:
    assert [seconds_of(text) for text in ("90", "90s", "30m", "2h", "1d")] == [
        90,
        90,
        1800,
        7200,
        86400,
    ]
    for text in ("", "0m", "m", "-1", "1.5h", "1w"):
        with pytest.raises(UsageError, match="write a number"):
            seconds_of(text)
    plan = RemotePlan("run", "t.py", (), {}, ())
    assert "+ 1740)" in plan.container(1800)  # a minute to save the traces
    assert "+ 30)" in plan.container(60)


def test_names_from_elsewhere_stay_in_their_folder(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "run", Limits(bytes=100))
    names = [
        "a.json",
        "b/c d\x1b.json",
        "b/c_d_.json",
        "..",
        "a/../x",
        "",
        "/x",
        "n" * 300,
        "/".join("d" * 20),
    ]
    for name in names:
        arrivals.take(name, io.BytesIO(b"x").read)
    assert list(arrivals.brought) == ["a.json", "b/c d\x1b.json"]
    assert len(arrivals.notes) == len(names) - 2
    assert {path.name for path in (tmp_path / "run").rglob("*.json")} == {"a.json", "c_d_.json"}
    (tmp_path / "run" / "link").symlink_to(tmp_path)
    arrivals.take("link/out.json", io.BytesIO(b"x").read)
    assert not (tmp_path / "out.json").exists()
    with pytest.raises(LimitError):
        arrivals.take("big.json", io.BytesIO(b"x" * 200).read)
    assert not (tmp_path / "run" / "big.json").exists()
