"""The same share to a folder, to a real S3 server, and to a Hub on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.errors import MissingError, TraceError, UsageError
from foretrace.read.recordings import traces
from foretrace.show.share.publish import INDEX, share
from foretrace.show.share.stores import Folder, Sent, StoreError, store_for
from show.share import hub, planted


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("mlp_eager", "mlp_compiled"):
        shutil.copy(traces()[name], folder)
    (folder / planted.FILE_NAME).write_bytes(planted.document().bytes())
    (folder / "server_args.json").write_text('{"not": "a trace"}')
    return folder


class Stopped(Exception):
    """What a broken line looks like to whoever is uploading."""


def test_a_run_that_was_stopped_goes_on(source: Path, tmp_path: Path) -> None:
    store, put = Folder(tmp_path / "out"), []

    class Breaking(Folder):
        def put(self, path: Path, name: str, sent: Sent) -> None:
            if len(put) == 3:
                raise Stopped
            put.append(name)
            super().put(path, name, sent)

    with pytest.raises(Stopped):
        share(str(source), Breaking(tmp_path / "out"))
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    shared = share(str(source), store)
    assert [each.was_there for each in shared] == [True, False, False]
    assert {
        name: (tmp_path / "out" / name).stat().st_mtime_ns for name in shared[0].trace.split()
    } == {name: before[name] for name in shared[0].trace.split()}
    assert all(each.was_there for each in share(str(source), store))


def test_nothing_that_was_there_is_touched(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("keep me")
    (tmp_path / "out" / "index.html").write_text("and me")
    shared = share(str(source), Folder(tmp_path / "out"))
    assert (tmp_path / "out" / "thesis.txt").read_text() == "keep me"
    assert (tmp_path / "out" / "index.html").read_text() == "and me"
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "thesis.txt",
        "index.html",
        INDEX,
        *(each.trace for each in shared),
        *(each.report for each in shared),
    }
    index = (tmp_path / "out" / INDEX).read_text()
    assert all(each.report in index for each in shared)
    assert [each.trace[:9] for each in shared] == ["worker_42", "mlp_compi", "mlp_eager"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """`share` overwrote a file through a link that someone had put into the target folder."""
    source = traces()["linear_eager"]
    names = [path.name for path in _shared_to(source, tmp_path / "first").iterdir()]
    outside, out = tmp_path / "thesis.txt", tmp_path / "out"
    outside.write_text("keep me")
    out.mkdir()
    for name in names:
        (out / name).symlink_to(outside)
    _shared_to(source, out)
    assert outside.read_text() == "keep me"
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    assert not [path for path in out.iterdir() if path.is_symlink()]


@pytest.mark.parametrize("name", ["long_" * 49, "长" * 80])
def test_a_long_file_name_is_cut(name: str, tmp_path: Path) -> None:
    source = tmp_path / f"{name}.json.gz"
    shutil.copy(traces()["linear_eager"], source)
    [shared] = share(str(source), Folder(tmp_path / "out"), frozenset({"stacks", "inputs"}))
    assert (tmp_path / "out" / shared.trace).is_file()


def _shared_to(source: Path, folder: Path) -> Path:
    share(str(source), Folder(folder))
    return folder


def test_the_index_lists_what_earlier_runs_have_put_there(tmp_path: Path) -> None:
    first, second = (
        share(str(traces()[name]), Folder(tmp_path), keep)[0]
        for name, keep in (("mlp_eager", frozenset({"stacks"})), ("linear_eager", frozenset[str]()))
    )
    index = (tmp_path / INDEX).read_text()
    assert index.count("<tr>") == 2
    assert all(
        f'href="{name}"' in index for each in (first, second) for name in (each.trace, each.report)
    )
    assert "in some: Python frames" in index  # what the first one kept is still said
    (tmp_path / first.report).unlink()
    share(str(traces()["linear_eager"]), Folder(tmp_path))
    assert first.trace not in (tmp_path / INDEX).read_text()  # no link leads nowhere


def test_the_command_prints_what_opens_the_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json
    import shlex

    from foretrace.cli import main

    place = str(tmp_path / "a folder")
    assert main(["share", str(traces()["mlp_eager"]), "--to", place, "--no-cache", "--strict"]) == 0
    shown = capsys.readouterr()
    printed = shlex.split(shown.out.splitlines()[1])
    assert printed[:2] == ["foretrace", "perfetto"]
    assert main(["look", printed[2], "--no-cache"]) == 0
    assert f"index: {place}/{INDEX}" in shown.err
    assert "names of regions: mlp_fwd" in shown.err
    capsys.readouterr()
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(traces()["mlp_eager"].read_bytes()[:3000])
    assert main(["share", str(cut), "--to", place, "--strict", "--no-cache", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["to"] == place


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    server_module = pytest.importorskip(
        "moto.server", reason="moto is not installed: pip install 'moto[server]'"
    )
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    s3fs.S3FileSystem.clear_instance_cache()  # one that an earlier test made has its credentials
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return s3_server


def test_to_a_real_s3_server(source: Path, s3: str) -> None:
    # what a driver thinks of its own version is not shown
    warnings.simplefilter("error", UserWarning)
    import boto3

    client: Any = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="profiles")
    client.put_object(Bucket="profiles", Key="run7/thesis.txt", Body=b"keep me")
    said: list[str] = []
    shared = share(
        str(source),
        store_for("s3://profiles/run7"),
        progress=lambda done, every, what: said.append(what),
    )
    held = {
        entry["Key"]: client.get_object(Bucket="profiles", Key=entry["Key"])["Body"].read()
        for entry in client.list_objects_v2(Bucket="profiles")["Contents"]
    }
    assert set(held) == {
        f"run7/{name}"
        for name in (
            "thesis.txt",
            INDEX,
            *(each.trace for each in shared),
            *(each.report for each in shared),
        )
    }
    assert held["run7/thesis.txt"] == b"keep me"
    # bytes of one file
    assert [what for what in said if re.search(r"mlp_eager-.*gz: [1-9].*B of [1-9].*B", what)]
    assert (
        shared[1].perfetto
        == f"https://ui.perfetto.dev/#!/?url={s3}/profiles/run7/{shared[1].trace}"
    )
    assert all(each.was_there for each in share(str(source), store_for("s3://profiles/run7")))
    assert not [
        secret for secret in planted.SECRETS for data in held.values() if secret.encode() in data
    ]


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there_is_an_error_in_words(source: Path) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        share(str(source), store_for("s3://no-such-bucket/x"))


TWICE = """
import sys
from foretrace.cli import main
main(sys.argv[1:])
print("AGAIN", flush=True)
sys.exit(main(sys.argv[1:]))
"""


def test_to_a_bucket_of_the_hub(source: Path, tmp_path: Path) -> None:
    """In a process of its own, because the Hub's client reads its address when it is imported."""
    pytest.importorskip(
        "huggingface_hub", reason="huggingface_hub is not installed: pip install 'foretrace[share]'"
    )
    with hub.running() as server:
        environment = os.environ | {
            "HF_ENDPOINT": server.address,
            "HF_TOKEN": "hf_test",
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        command = [sys.executable, "-c", TWICE, "share", str(source), "-b", "traces"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.split("AGAIN\n")
        assert second.count("(was there)") == 3
        made = [
            at
            for at, (_, path) in enumerate(server.requests)
            if path == "/api/buckets/tester/traces"
        ]
        assert server.made == ["tester/traces"] * len(made) == ["tester/traces", "tester/traces"]
        # the index alone
        later = [path for _, path in server.requests[made[1] :]]
        assert sum(path.endswith("/batch") for path in later) == 1
        assert len(server.files) == 7
        assert {method for method, _ in server.requests} <= {"GET", "HEAD", "POST", "PUT"}
        links = [line.strip() for line in first.splitlines() if "ui.perfetto.dev" in line]
        assert len(links) == 3
        assert all(
            f"#!/?url={server.address}/buckets/tester/traces/resolve/" in link for link in links
        )
        sent = b"".join(server.chunks)
        assert not [secret for secret in planted.SECRETS if secret.encode() in sent]


@pytest.mark.parametrize(
    ("url", "error"), [("hf://models/x", UsageError), ("ftp://x/y", UsageError)]
)
def test_addresses_that_mean_nothing(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        store_for(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for url in ("s3://bucket/x", "hf://buckets/me/x"):
        with pytest.raises(MissingError, match=r"pip install 'foretrace\[share\]'"):
            store_for(url)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'foretrace[share]'")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingError, match="pip install gcsfs"):
        store_for("gs://bucket/x")


def test_a_hub_that_cannot_be_reached_is_an_error_in_words(tmp_path: Path) -> None:
    pytest.importorskip(
        "huggingface_hub", reason="huggingface_hub is not installed: pip install 'foretrace[share]'"
    )
    environment = os.environ | {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_TOKEN": "hf_test",
        "HF_HOME": str(tmp_path),
    }
    command = [
        sys.executable,
        "-m",
        "foretrace",
        "share",
        str(traces()["mlp_eager"]),
        "--to",
        "hf://buckets/me/x",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "hf://buckets/me/x at http://127.0.0.1:9: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_folder_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="contains no trace"):
        share(str(tmp_path), Folder(tmp_path / "out"))
