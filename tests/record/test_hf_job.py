"""`foretrace record --hf-job`, against the functions of huggingface_hub."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("huggingface_hub")
from foretrace.cli import main
from foretrace.read.recordings import traces
from foretrace.record import hf_job
from pages.export.hub import OWNER, Hub, installed

TRACE = traces()["mlp_eager"].read_bytes()
SCRIPT = """
# /// script
# requires-python = ">=3.11"
# dependencies = ["einops"]
# ///
import beside
"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    for name in ("POLL_S", "SETTLE_S"):
        monkeypatch.setattr(hf_job, name, 0.001)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    Path("beside.py").write_text("")
    Path("secret.env").write_text("KEY=1")
    return installed(monkeypatch, tmp_path)


def record(*arguments: str) -> int:
    return main(["record", "--hf-job", "a10g-small", *arguments])


def test_a_script_is_sent_and_its_traces_come_back(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "the-value")
    hub.records({"train/train.json.gz": TRACE, "train/train.run.json": b"{}"})
    line = [
        "--steps",
        "5",
        "--timeout",
        "20m",
        "--secret",
        "WANDB_API_KEY",
        "train.py",
        "--lr",
        "1",
    ]
    assert record("--dry-run", *line) == 0
    said = capsys.readouterr().out
    assert not hub.calls
    assert record(*line) == 0
    shown = capsys.readouterr()
    (run,) = Path("traces").iterdir()
    assert shown.out == f"{run}/train/train.json.gz\n{run}/train/train.run.json\n"
    assert (run / "train" / "train.json.gz").read_bytes() == TRACE
    sent = {name.partition("/code/")[2] for name in hub.held if "/code/" in name}
    assert {name for name in sent if name.endswith(".py")} == {"train.py", "beside.py"}
    assert "secret.env" not in sent
    job = hub.job
    assert (job["flavor"], job["timeout"], job["namespace"]) == ("a10g-small", 1200, OWNER)
    assert (job["python"], job["dependencies"][1:]) == (">=3.11", ["torch", "einops"])
    assert job["secrets"] == {"WANDB_API_KEY": "the-value"}
    assert "the-value" not in said + shown.out + shown.err
    volume = job["volumes"][0]
    assert (volume.source, volume.mount_path) == (f"{OWNER}/foretrace-runs", "/foretrace")
    assert "'--steps', '5', 'train.py', '--lr', '1'" in hub.program
    assert hub.program in said
    assert "beside.py" in said


def test_the_job_records_and_writes_sums(hub: Hub, tmp_path: Path) -> None:
    """The program of the job, with a foretrace that writes one file."""
    plan = hf_job.plan_job(Path("train.py"), ["--steps", "2", "train.py"], "cpu-basic", "2m", ())
    mount, home = tmp_path / "mount", tmp_path / "home"
    (mount / "code").mkdir(parents=True)
    fake = tmp_path / "foretrace"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "__main__.py").write_text(
        "import pathlib, sys\n"
        "pathlib.Path('traces/t').mkdir(parents=True)\n"
        "pathlib.Path('traces/t/a.json').write_text(' '.join(sys.argv[1:]))\nsys.exit(3)"
    )
    program = plan.program.replace('"/foretrace', f'"{mount}').replace("/tmp/foretrace", str(home))
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(tmp_path)}, check=False
    )
    assert done.returncode == 3
    assert (mount / "traces/t/a.json").read_text().endswith("--steps 2 train.py")
    assert (mount / "SHA256SUMS").read_text().split()[1] == "traces/t/a.json"


@pytest.mark.parametrize(
    ("end", "found"), [("# ///\n# c = 3\n", {"a": ["x"]}), ("", {}), ("b\n# ///\n", {})]
)
def test_metadata_is_a_closed_block_of_comments(
    end: str, found: dict[str, object], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import torch\n# /// script\n# a = ['x']\n#\n{end}")
    assert hf_job.inline_metadata(script) == found


def test_a_checkout_sends_itself_as_a_wheel() -> None:
    names = zipfile.ZipFile(BytesIO(hf_job.own_wheel())).namelist()
    assert "foretrace/cli/record.py" in names
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert not [name for name in names if name.endswith("mlp_eager.json.gz")]


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("../../x.json", "its name allows no place", 3),
        ("a/..", "its name allows no place", 3),
        (".ssh/keys", "its name allows no place", 3),
    ],
)
def test_no_name_leads_out_of_the_folder(
    name: str, said: str, code: int, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.records({name: b"x"})
    assert record("train.py") == code
    assert said in capsys.readouterr().err
    assert not Path("traces").exists()


def test_a_damaged_file_and_too_many_bytes_are_refused(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.records({"t.json.gz": TRACE})
    hub.writes["traces/t.json.gz"] += b"x"
    assert record("train.py") == 3
    assert "arrived damaged" in capsys.readouterr().err
    hub.records({"t.json.gz": bytes(9)})
    limits = SimpleNamespace(bytes=8)
    plan = hf_job.plan_job(Path("train.py"), [], "cpu-basic", "2m", ())
    with pytest.raises(hf_job.LimitError):
        hf_job.run_job(plan, Path("out"), limits, print)  # type: ignore[arg-type]


def test_a_failed_job_says_why_and_brings_what_there_is(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.records({"t.json.gz": TRACE})
    hub.stages = ["RUNNING", "ERROR"]
    assert record("train.py") == 2
    error = capsys.readouterr().err
    assert "ValueError: no GPU" in error
    assert "the job ended as ERROR; 1 files are in traces/train-" in error
    hub.writes = {}
    assert record("train.py") == 2
    assert "the job ended as ERROR; no trace" in capsys.readouterr().err


class RefusedError(Exception):
    response = SimpleNamespace(status_code=403)


def test_what_goes_wrong_is_one_line(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*arguments: str) -> str:
        assert record(*arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "--secret NO_SUCH: no such environment variable" in said(
        "--secret", "NO_SUCH", "train.py"
    )
    assert "--timeout soon" in said("--timeout", "soon", "train.py")
    assert "no such script" in said("other.py")
    hub.refuses["run_uv_job"] = RefusedError("Forbidden\nmore")
    assert "Forbidden (403); the token must be valid, and may write" in said("train.py")
    hub.private = False
    assert f"{OWNER}/foretrace-runs is public: make it private" in said("train.py")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "no Hugging Face token: run hf auth login" in said("train.py")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert record("train.py") == 4
    assert "pip install 'foretrace[hf]'" in capsys.readouterr().err
    assert main(["record", "--secret", "X", "train.py"]) == 2
    assert "--secret is an option of --hf-job" in capsys.readouterr().err
