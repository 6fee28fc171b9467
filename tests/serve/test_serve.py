"""What the viewer answers, and what it refuses."""

from __future__ import annotations

import json
import random
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import foretrace
from foretrace.errors import MissingError, TraceError
from foretrace.recordings import traces
from foretrace.render.html.timeline import Timeline
from foretrace.serve import guard
from foretrace.serve.catalog import catalog
from foretrace.serve.tiles import Tiles
from foretrace.sources.limits import Limits
from serve.running import Viewer, viewer

SECRET = "canary outside the folder"
PASSWD = Path("/etc/passwd")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three traces, a link out of it, and a secret beside it."""
    root = tmp_path_factory.mktemp("served")
    (root / "secret.json").write_text(
        json.dumps({"traceEvents": [{"ph": "X", "name": SECRET, "ts": 1, "dur": 1}]})
    )
    folder = root / "traces"
    (folder / "sub").mkdir(parents=True)
    for name, place in (
        ("mlp_eager", folder),
        ("mlp_compiled", folder),
        ("matmul_add_64_eager", folder / "sub"),
    ):
        shutil.copy(traces()[name], place)
    (folder / "out.json").symlink_to(root / "secret.json")
    (folder / "passwd.json").symlink_to(PASSWD)
    (folder / "loop").symlink_to(folder)
    return folder


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Viewer]:
    pytest.importorskip(
        "starlette", reason="starlette is not installed: pip install 'foretrace[serve]'"
    )
    with viewer(str(home)) as running:
        yield running


def test_only_traces_inside_the_folder_are_listed(served: Viewer, home: Path) -> None:
    labels = [entry["label"] for entry in served.json("traces")["traces"]]
    assert labels == [
        "mlp_compiled.json.gz",
        "mlp_eager.json.gz",
        "sub/matmul_add_64_eager.json.gz",
    ]
    # what a link leads to outside is not even looked at
    assert served.json("traces")["left_out"] == []
    assert [
        entry.label for entry in catalog(str(home / "mlp_eager.json.gz"), Limits()).entries
    ] == ["mlp_eager.json.gz"]


def test_a_folder_without_traces_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no trace"):
        catalog(str(tmp_path), Limits())


NOT_TRACES = {
    "empty.json": b"",
    "words.json": b"hello",
    "settings.json": b'{"model": "x"}',
    "cut.json": b'{"x": 1, "dev',
}


def test_files_that_are_no_traces_are_listed_with_why(home: Path, tmp_path: Path) -> None:
    for name, content in NOT_TRACES.items():
        (tmp_path / name).write_bytes(content)
    shutil.copy(traces()["mlp_eager"], tmp_path)
    with viewer(str(tmp_path)) as running:
        listed, page = running.json("traces"), running.get("")[2]
    assert [entry["label"] for entry in listed["traces"]] == ["mlp_eager.json.gz"]
    assert {entry["label"]: entry["why"].rpartition(" ")[2] for entry in listed["left_out"]} == {
        "empty.json": "[E_EMPTY]",
        "words.json": "[E_NOT_A_TRACE]",
        "settings.json": "[E_NO_EVENTS]",
        "cut.json": "[E_NO_EVENTS]",
    }
    assert b"settings.json" in page
    assert str(tmp_path) not in json.dumps(listed)


@pytest.mark.parametrize("content", [*NOT_TRACES.values(), b'{"schemaVersion": 1, "dev'])
def test_one_file_that_is_no_trace_is_not_served(content: bytes, tmp_path: Path) -> None:
    from foretrace.serve import run

    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(TraceError) as looked:
        foretrace.open(tmp_path / "t.json")
    with pytest.raises(TraceError, match=re.escape(str(looked.value))):
        run.prepare(str(tmp_path / "t.json"))


def test_strict_says_why_nothing_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    (tmp_path / "cut.json.gz").write_bytes(traces()["mlp_eager"].read_bytes()[:3000])
    assert main(["serve", str(tmp_path), "--no-browser", "--strict", "--no-cache"]) == 1
    said = capsys.readouterr().err
    assert "cut.json.gz: the gzip stream ends early; nothing is served" in said
    assert said.count("\n") == 1


def test_a_trace_opens_and_its_tiles_hold_its_events(served: Viewer) -> None:
    ready = served.json("trace/1")
    assert ready["state"] == "ready"
    timeline = ready["entry"]["timeline"]
    tile = served.json(f"trace/1/tile?from=0&to={timeline['end']}&width=8000")["events"]
    whole = Timeline(foretrace.open(traces()["mlp_eager"], cache=False))
    assert 0 < tile["rows"] <= len(whole)
    near = served.json("trace/1/tile?from=0&to=400000&width=8000")["events"]
    assert near["rows"] == len(whole.between(0, 400_000))


def test_details_search_sql_tables_report_and_file(served: Viewer) -> None:
    served.json("trace/1")
    trace = foretrace.open(traces()["mlp_eager"], cache=False)
    kernel = trace.kernels.row(0, named=True)
    assert served.json(f"trace/1/event/{kernel['id']}")["events"]["rows"] >= 5
    assert served.json("trace/1/search?q=gelu")["count"] == 6
    found = served.json("trace/1/sql?q=select+count(*)+as+n+from+kernels")
    assert (found["columns"], found["rows"]) == (["n"], [[15]])
    assert b"mlp_fwd" in served.get("trace/1/table/regions.csv")[2]
    status, headers, body = served.get("trace/1/report")
    assert status == 200
    assert b"<title>mlp_eager.json.gz" in body
    assert "'unsafe" not in headers["content-security-policy"]
    assert served.get("trace/1/file")[2] == traces()["mlp_eager"].read_bytes()


def test_two_traces_are_compared(served: Viewer) -> None:
    found = served.json("compare/1/0")["comparison"]
    assert round(found["gpu_ns"]["ratio"], 2) == 0.88
    tile = served.json("trace/1/tile?from=0&to=1000000&width=1000&against=0&side=a")
    assert tile["marks"]["rows"] == tile["events"]["rows"]


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from READ_CSV/**/('/etc/passwd')",
        "select * from \"read_csv\"('/etc/passwd')",
        "select * from scan_parquet('x')",
        "drop table kernels",
        "select",
        "select * from nothing",
        "copy kernels to '/tmp/x'",
        "",
    ],
)
def test_sql_reads_the_tables_and_nothing_else(served: Viewer, query: str) -> None:
    from urllib.parse import quote

    served.json("trace/1")
    status, _, body = served.get(f"trace/1/sql?q={quote(query)}")
    assert b"root:" not in body
    assert status == 400 or b'"rows":[]' in body.replace(b" ", b"") or query.startswith("drop")


def test_sql_answers_in_json_whatever_the_numbers_and_names_are(tmp_path: Path) -> None:
    from urllib.parse import quote

    event = {"ph": "X", "cat": "cpu_op", "name": "isNaN", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    with viewer(str(tmp_path)) as running:
        running.json("trace/0")
        found = running.json(
            "trace/0/sql?q=" + quote("select name, ln(0.0) as x, sqrt(-1.0) as y from events")
        )
    assert found["rows"] == [["isNaN", None, None]]


def traversals() -> list[str]:
    """Five hundred ways to ask for something that is not there."""
    steps = [
        "..",
        "%2e%2e",
        "..%2f",
        "%2e%2e%2f",
        "..%5c",
        "..\\",
        "%c0%ae%c0%ae",
        "....//",
        "..;",
        "%252e%252e",
        "..%00",
        "..%ef%bc%8f",
    ]
    targets = ["etc/passwd", "secret.json", "etc%2fpasswd", "proc/self/environ", "windows/win.ini"]
    places = [
        "",
        "trace/",
        "trace/0/",
        "trace/0/table/",
        "trace/0/file/",
        "compare/0/",
        "static/",
        "trace/-1/",
    ]
    every = [
        f"{place}{'/'.join([step] * depth)}/{target}"
        for place in places
        for step in steps
        for depth in (1, 3, 8)
        for target in targets
    ]
    odd = [
        "//etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "trace/0/file?path=/etc/passwd",
        "trace/0/table/../../../etc/passwd",
        "trace/0/table/%2fetc%2fpasswd",
        "trace/99999999999999999999/file",
        "trace/0x0/file",
        "trace/1e1/file",
        "\\\\host\\share",
    ]
    return random.Random(7).sample(every, 500 - len(odd)) + odd


def test_five_hundred_traversals_read_nothing(served: Viewer) -> None:
    served.json("trace/0")
    asked = traversals()
    assert len(set(asked)) == 500
    for path in asked:
        status, _, body = served.get(path)
        assert SECRET.encode() not in body
        assert b"root:" not in body
        assert status in (400, 403, 404) or path == "trace/0/file?path=/etc/passwd", (path, status)
    assert served.get("traces")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "127.0.0.1.evil.com:{port}",
        "localhost.evil:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "0.0.0.0:{port}",
        "",
        "127.0.0.1:{port}\r\nHost: evil.com",
    ],
)
def test_a_wrong_host_is_refused(served: Viewer, host: str) -> None:
    assert served.get("traces", {"Host": host.format(port=served.port)})[0] in (400, 421)


def test_a_missing_host_is_refused(served: Viewer) -> None:
    assert served.send(f"GET {served.base}traces HTTP/1.0\r\n\r\n".encode())[0] == 421
    assert served.send(f"GET {served.base}traces HTTP/1.1\r\n\r\n".encode())[0] in (400, 421)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_our_own_names_are_answered(served: Viewer, name: str) -> None:
    assert served.get("traces", {"Host": f"{name}:{served.port}"})[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.com", "null", "http://127.0.0.1:1", "https://ui.perfetto.dev", "file://"],
)
def test_a_wrong_origin_is_refused(served: Viewer, origin: str) -> None:
    status, headers, _ = served.get("traces", {"Origin": origin})
    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_our_own_origin_is_answered(served: Viewer) -> None:
    assert served.get("traces", {"Origin": f"http://127.0.0.1:{served.port}"})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "",
        "traces",
        "trace/0",
        "trace/0/tile?from=0&to=1&width=1",
        "trace/0/sql?q=select",
        "trace/0/file",
        "trace/0/table/kernels.csv",
        "compare/0/1",
        "trace/0/report",
        "trace/0/event/1",
    ],
)
@pytest.mark.parametrize("token", ["", "wrong/", "%00/", "../"])
def test_every_route_needs_the_token(served: Viewer, path: str, token: str) -> None:
    status, _, body = served.send(
        f"GET /{token}{path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode()
    )
    assert status == 403
    assert b"token" in body


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "TRACE", "OPTIONS", "HEAD", "PATCH", "CONNECT", "FOO"]
)
def test_get_alone(served: Viewer, method: str) -> None:
    assert served.get("traces", method=method)[0] in (400, 405)


def test_large_requests_are_refused_unread(served: Viewer) -> None:
    head = f"{{}} {served.base}traces HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    body = b"x" * (1 << 20)
    for method, status in (("GET", 413), ("POST", 405)):
        start = head.format(method).encode()
        assert served.send(start + b"Content-Length: 104857600\r\n\r\n" + body * 8)[0] in (
            status,
            0,
        )
        assert served.send(start + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")[0] == status
    assert served.send(head.format("GET").encode() + b"X: " + body + b"\r\n\r\n")[0] in (400, 0)
    assert served.get("traces")[0] == 200


def test_slow_clients_hold_up_nobody(served: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(guard, "SLOWEST_S", 0.3)
    slow = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(50)]
    for line in slow:
        line.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert served.get("traces")[0] == 200
    assert {line.recv(1024)[:12] for line in slow} == {b"HTTP/1.1 408"}
    for line in slow:
        line.close()
    assert served.get("traces")[0] == 200


def test_a_hundred_at_once_half_of_them_bad(served: Viewer) -> None:
    served.json("trace/0")
    statuses: list[int] = []
    good = "trace/0/tile?from=0&to=2000000&width=1000"

    def one(at: int) -> None:
        headers = {"Origin": "https://evil.com"} if at % 4 == 1 else {}
        statuses.append(served.get(good if at % 2 == 0 else "../../etc/passwd", headers)[0])

    threads = [threading.Thread(target=one, args=(at,)) for at in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(statuses) == 100
    assert statuses.count(200) == 50
    assert set(statuses) <= {200, 403, 404}


def test_pages_carry_their_policy(served: Viewer) -> None:
    status, headers, body = served.get("")
    assert status == 200
    allowed = headers["content-security-policy"]
    assert "default-src 'none'" in allowed
    assert "frame-ancestors 'none'" in allowed
    assert "unsafe" not in allowed
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert b"http://" not in body


def test_what_cannot_be_read_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_bytes(
        b'{"schemaVersion": 1, "traceEvents": [' + b"[" * 100 + b"]}"
    )
    (tmp_path / "fine.json.gz").write_bytes(traces()["mlp_eager"].read_bytes())
    with viewer(str(tmp_path)) as running:
        answers = [
            running.json(f"trace/{number}")
            for number in range(len(running.json("traces")["traces"]))
        ]
        assert all(answer["state"] in ("ready", "failed") for answer in answers)
        assert all(str(tmp_path) not in json.dumps(answer) for answer in answers)


def test_tiles_show_the_first_of_each_pixel_and_all_that_is_wide() -> None:
    timeline = Timeline(foretrace.open(traces()["llama_train_eager"], cache=False))
    tiles = Tiles(timeline)
    assert len(tiles.levels) > 1
    for start, end, width in (
        (0, timeline.end_ns, 1000),
        (10_000_000, 12_000_000, 1000),
        (0, 1000, 500),
    ):
        pixel = max((end - start) / width, 1)
        near = timeline.between(start, end)
        wide = near[timeline.length[near] >= pixel]
        shown = tiles.rows(start, end, width)
        assert set(wide.tolist()) <= set(shown.tolist()) <= set(near.tolist())
        lanes = timeline.lane[near] * 100 + timeline.row[near]
        shown_lanes = timeline.lane[shown] * 100 + timeline.row[shown]
        for lane in np.unique(lanes).tolist():
            starts = timeline.start[near[lanes == lane]]
            covered = np.unique((timeline.start[shown[shown_lanes == lane]] - start) // (4 * pixel))
            assert set(np.unique((starts - start) // (4 * pixel))) <= set(covered) | {
                mark + 1 for mark in covered
            } | {mark - 1 for mark in covered}


def test_an_address_that_was_told_can_be_reached(home: Path) -> None:
    """A browser may be quicker than the server: it waits in line, and is not turned away."""
    import socket

    from foretrace.serve import run

    _, sockets, address = run.prepare(str(home))
    socket.create_connection(("127.0.0.1", Viewer(address).port), timeout=5).close()
    for each in sockets:
        each.close()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    import sys

    from foretrace.serve import run

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingError, match=r"pip install 'foretrace\[serve\]'"):
        run.prepare(str(home))


def test_a_large_file_is_read_apart_and_still_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foretrace.serve import library

    monkeypatch.setattr(library, "LARGE_BYTES", 0)
    with viewer(str(home)) as running:
        assert running.json("trace/1")["entry"]["look"]["totals"]["kernels"] == 15
        assert running.json("trace/1/sql?q=select+count(*)+as+n+from+kernels")["rows"] == [[15]]
        kernel = foretrace.open(traces()["mlp_eager"], cache=False).kernels.row(0, named=True)
        assert running.json(f"trace/1/event/{kernel['id']}")["events"]["rows"] >= 5
        assert running.json("trace/1/event/999999")["events"]["rows"] == 0
