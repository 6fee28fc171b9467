"""`foretrace remote` as a Hugging Face Job, against a Hub on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

huggingface_hub = pytest.importorskip("huggingface_hub")
from foretrace.cli import main  # noqa: E402
from foretrace.read.recordings import traces  # noqa: E402
from foretrace.record.remote import hub  # noqa: E402
from record.remote.jobs_hub import BUCKET, JOB, OWNER, TOKEN, JobsHub, running  # noqa: E402

TRACE = traces()["mlp_eager"].read_bytes()
SAID = Path(__file__).parents[3] / "examples" / "02_linear.py"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JobsHub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(hub, "POLL_S", 0.01)
    monkeypatch.setattr(hub, "LIST_S", 0.01)
    monkeypatch.setattr(hub, "SETTLE_S", 0.05)
    monkeypatch.chdir(tmp_path)
    with running() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        yield server


def remote(*arguments: str) -> int:
    return main(["remote", "--install", "foretrace==9", *arguments])


def test_a_job_is_asked_for_as_the_dry_run_says(
    server: JobsHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "the-value")
    line = [
        *("--flavor", "a10g-small", "--timeout", "20m", "--secret", "WANDB_API_KEY", "--json"),
        *("--with", "einops", str(SAID), "--batch", "8"),
    ]
    assert remote("--dry-run", *line) == 0
    said = json.loads(capsys.readouterr().out)
    assert not server.sent  # nothing but the price was requested
    assert said["usd_per_hour"] == 1.0
    server.records({"02_linear/t.json.gz": TRACE, "02_linear/t.run.json": b"{}"})
    assert remote(*line) == 0
    told = capsys.readouterr()
    body = server.sent[f"/api/jobs/{OWNER}"]
    assert body["secrets"] == {"WANDB_API_KEY": "the-value"}
    assert said["request"]["body"]["secrets"] == {"WANDB_API_KEY": "(not shown)"}
    assert "the-value" not in told.out + told.err
    # apart from the secret, the name of the run and the account, the dry run had it all
    before = json.dumps({**said["request"]["body"], "secrets": body["secrets"]})
    known = before.replace("YOUR_NAME", OWNER).replace(said["run"], server.run)
    assert json.loads(known) == body
    assert said["request"]["address"] == f"{server.address}/api/jobs/YOUR_NAME"
    assert (body["flavor"], body["timeoutSeconds"]) == ("a10g-small", 1200)
    assert "uv pip install --quiet --python .venv foretrace==" in body["command"][2]
    assert body["volumes"][0]["source"] == BUCKET
    assert server.sent[f"/api/buckets/{BUCKET}"] in ({"visibility": "private"}, {"private": True})
    assert set(server.files) == {
        f"{server.run}/code/{name}" for name in ("02_linear.py", "article.py")
    }
    assert server.tokens == {f"Bearer {TOKEN}"}
    got = json.loads(told.out)
    assert (got["job"], got["stage"], got["failed"]) == (f"{OWNER}/{JOB}", "COMPLETED", False)
    assert [Path(path).name for path in got["traces"]] == ["t.json.gz"]
    assert Path(got["traces"][0]).read_bytes() == TRACE
    assert "tester/687fb701029421ae5549d998: running" not in told.out


def test_a_job_can_be_left_and_fetched_later(
    server: JobsHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr("foretrace.cli.record.show", looked.append)
    server.records({"t.json.gz": TRACE})
    assert remote("--no-wait", str(SAID)) == 0
    told = capsys.readouterr()
    assert told.out.strip() == f"{OWNER}/{JOB}"
    assert f"cancel: hf jobs cancel {OWNER}/{JOB}" in told.err
    for name in (JOB, f"{OWNER}/{JOB}", f"https://huggingface.co/jobs/{OWNER}/{JOB}"):
        assert remote("--fetch", name, "-o", "here") == 0
    assert set(looked) == {Path("here", server.run, "t.json.gz")}
    assert looked[0].read_bytes() == TRACE


@pytest.mark.parametrize(
    ("refused", "status", "words"),
    [
        ("/api/whoami-v2", 401, "hf auth login"),
        (f"/api/jobs/{OWNER}", 402, "no credits"),
        (f"/api/jobs/{OWNER}", 403, "refused by the tests (403); the token may not do this"),
        (f"/api/buckets/{BUCKET}", 500, "refused by the tests (500)"),
    ],
)
def test_what_the_hub_refuses_is_one_line(
    server: JobsHub, capsys: pytest.CaptureFixture[str], refused: str, status: int, words: str
) -> None:
    server.refuses = {refused: status}
    assert remote(str(SAID)) == 2
    told = capsys.readouterr().err
    assert words in told
    assert len(told.splitlines()) == 1


def test_a_job_that_is_not_there(server: JobsHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert remote("--fetch", "0123") == 2
    assert "job tester/0123: " in capsys.readouterr().err
    assert remote("--fetch", "../x") == 2
    assert "not the id of a job" in capsys.readouterr().err


def test_a_job_of_something_else_is_not_fetched(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    remote("--no-wait", str(SAID))
    server.spec["volumes"][0]["path"] = "../../etc"
    assert remote("--fetch", JOB) == 2
    assert "was not started by foretrace remote" in capsys.readouterr().err


def test_a_job_that_failed_shows_the_end_of_its_log(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stages, server.message = ["RUNNING", "ERROR"], "Job timeout"
    server.log = [f"line {number}" for number in range(30)] + ["\x1b[31mno CUDA GPU"]
    assert remote(str(SAID)) == 1
    told = capsys.readouterr().err
    assert "the job ended as ERROR: Job timeout" in told
    assert "the job wrote no trace" in told
    assert r"its log: \x1b[31mno CUDA GPU" in told
    assert "line 5" not in told


def test_a_failed_script_still_brings_its_trace(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stages, server.message = ["ERROR"], "exit code 1"
    server.records({"t.json.gz": TRACE})
    assert remote("--no-look", str(SAID)) == 1
    told = capsys.readouterr()
    assert Path(told.out.strip()).read_bytes() == TRACE


def test_a_job_without_a_trace(server: JobsHub, capsys: pytest.CaptureFixture[str]) -> None:
    server.records({"table.txt": b"rows"})
    assert remote("--json", str(SAID)) == 1
    got = json.loads(capsys.readouterr().out)
    assert (got["failed"], got["traces"], len(got["brought"])) == (True, [], 1)


def test_files_that_are_missing_or_changed_are_named(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.records({"t.json.gz": TRACE, "late.json.gz": b"1", "../../out.json": b"{}"})
    del server.writes["traces/late.json.gz"]
    assert remote("--no-look", str(SAID)) == 0
    told = capsys.readouterr().err
    assert "traces/late.json.gz: not in the bucket; fetch it again later" in told
    assert "../../out.json: not taken" in told
    assert not list(Path().glob("*.json"))
    server.writes["traces/t.json.gz"] = TRACE[:-1]
    assert remote("--fetch", JOB) == 3
    assert "arrived damaged [E_CHANGED]; fetch it again" in capsys.readouterr().err


def test_more_bytes_than_the_house_allows(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.records({"t.json.gz": TRACE})
    assert remote("--limit", "bytes=1000", str(SAID)) == 3
    assert "raise it with --limit bytes=NUMBER" in capsys.readouterr().err
    assert not list(Path("traces").rglob("*.gz"))


def test_a_hub_that_is_away_for_a_while_is_waited_for(
    server: JobsHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.records({"t.json.gz": TRACE})
    away = {f"/api/jobs/{OWNER}/": 503}
    server.refuses = dict(away)
    naps = iter(range(3))
    monkeypatch.setattr(hub.time, "sleep", lambda _: next(naps, None) or server.refuses.clear())
    assert remote("--no-look", str(SAID)) == 0
    monkeypatch.setattr(hub, "PATIENCE", 2)
    server.stages, server.refuses = ["RUNNING"], away
    monkeypatch.setattr(hub.time, "sleep", lambda _: None)
    capsys.readouterr()
    assert remote(str(SAID)) == 2
    told = capsys.readouterr().err
    assert "(503)" in told
    assert "the job goes on; fetch: foretrace remote --fetch" in told


def test_a_public_bucket_gets_no_script(
    server: JobsHub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.private = False
    assert remote(str(SAID)) == 2
    assert "is public" in capsys.readouterr().err
    assert not server.files


def test_what_can_be_wrong_before_anything_is_sent(
    server: JobsHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for line, words in (
        ([], "give a SCRIPT"),
        (["none.py"], "no such script: none.py"),
        (["--flavour", "h200", str(SAID)], "No such option"),
        (["--fetch", JOB, "--dry-run"], "--fetch sends nothing"),
        (["--ssh", "box", "--no-wait", str(SAID)], "are those of a job"),
        (["--timeout", "soon", str(SAID)], "--timeout soon: write a number"),
        (["--secret", "A=1", str(SAID)], "--secret takes a name alone"),
        (["--secret", "NO_SUCH_NAME", str(SAID)], "export it first"),
        (["--install", "none.whl", str(SAID)], "--install none.whl: no such file"),
        (["--include", "/etc/hostname", str(SAID)], "the folder of the script"),
    ):
        assert remote(*line) == 2, line
        assert words in capsys.readouterr().err
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert remote(str(SAID)) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert remote("--dry-run", str(SAID)) == 0
    assert "1.00 USD per hour" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert remote("--dry-run", str(SAID)) == 4
    assert "pip install 'foretrace[remote]'" in capsys.readouterr().err
    assert not server.sent


def test_ctrl_c_leaves_the_job_running(server: JobsHub, tmp_path: Path) -> None:
    server.stages = ["RUNNING"]
    environment = {**os.environ, "HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path)}
    line = [sys.executable, "-m", "foretrace", "remote", str(SAID)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
        assert said[1].endswith("running\n")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert f"the job goes on; fetch: foretrace remote --fetch {OWNER}/{JOB}" in rest
    assert not [path for _, path in server.requests if path.endswith("/cancel")]
