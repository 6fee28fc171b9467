"""What the viewer answers, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace

import foretrace
import processes
from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, MissingError, TraceError
from foretrace.pages.serve import library
from foretrace.pages.serve.library import catalog
from foretrace.pages.timeline import Timeline
from foretrace.read.recordings import traces
from foretrace.trace import query as query_process
from opened_traces import opened
from pages.serve import reading
from pages.serve.conftest import SECRET
from pages.serve.running import Viewer, end_process, viewer


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
    from foretrace.pages.serve import run

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
    whole = Timeline(opened(traces()["mlp_eager"]))
    tile = served.json(f"trace/1/tile?from=0&to={whole.end_ns}&width=8000")
    busy = reading.bands(tile["bands"], 0, whole.end_ns, 8000)
    assert {key[:2] for key in busy} == set(zip(whole.lane, whole.row, strict=True))
    near = served.json("trace/1/tile?from=0&to=400000&width=8192&tracks=0,1")
    events = reading.columns(near["boxes"])["event"]
    inside = whole.between(1, 399_999)
    wide = inside[(whole.length[inside] >= 400_000 / 8192) & (whole.lane[inside] < 2)]
    assert events.tolist() == whole.event[wide].tolist()
    assert served.json("trace/1/tile?from=0&to=400000&width=80&tracks=")["boxes"]["rows"] == 0


def test_details_search_sql_tables_report_and_file(served: Viewer) -> None:
    served.json("trace/1")
    trace = opened(traces()["mlp_eager"])
    kernel = trace.kernels.row(0, named=True)
    assert served.json(f"trace/1/event/{kernel['id']}")["events"]["rows"] >= 5
    found = served.json("trace/1/search?q=gelu")
    assert found["count"] == sum(count for _, count in found["names"]) == 6
    work = reading.columns(served.json("trace/1/work")["events"])
    assert set(trace.kernel_cases["kernels"][0].to_list()) <= set(work["event"].tolist())
    found = served.json("trace/1/sql?q=select+count(*)+as+n+from+kernels")
    assert (found["columns"], found["rows"]) == (["n"], [[15]])
    assert b"mlp_fwd" in served.get("trace/1/table/regions.csv")[2]
    status, headers, body = served.get("trace/1/report")
    assert status == 200
    assert b"<title>mlp_eager.json.gz" in body
    assert "'unsafe" not in headers["content-security-policy"]
    assert served.get("trace/1/file")[2] == traces()["mlp_eager"].read_bytes()


def test_three_traces_are_compared(served: Viewer) -> None:
    found = served.json("compare?traces=2,0,1")["compared"]
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    for number in range(3):
        tile = served.json(f"trace/{number}/tile?from=0&to=1000000&width=1000&among=2,0,1")
        assert set(reading.columns(tile["marks"])["mark"].tolist()) <= {-1, 0, 1, 2, 3}


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
        "compare/",
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


def test_an_address_that_was_told_can_be_reached(home: Path) -> None:
    """A browser may be quicker than the server: it waits in line, and is not turned away."""
    import socket

    from foretrace.pages.serve import run

    _, sockets, address = run.prepare(str(home))
    socket.create_connection(("127.0.0.1", Viewer(address).port), timeout=60).close()
    for each in sockets:
        each.close()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    import sys

    from foretrace.pages.serve import run

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingError, match=r"pip install 'foretrace\[serve\]'"):
        run.prepare(str(home))


def test_a_large_file_is_read_apart_and_still_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LARGE_BYTES", 0)
    with viewer(str(home)) as running:
        assert running.json("trace/1")["entry"]["kernels"]
        assert running.json("trace/1/sql?q=select+count(*)+as+n+from+kernels")["rows"] == [[15]]
        kernel = opened(traces()["mlp_eager"]).kernels.row(0, named=True)
        assert running.json(f"trace/1/event/{kernel['id']}")["events"]["rows"] >= 5
        assert running.json("trace/1/event/999999")["events"]["rows"] == 0


def test_a_process_that_is_ended_is_said_in_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_without_trace", end_process)
    entry = catalog(str(home / "mlp_eager.json.gz"), Limits()).entries[0]
    large = replace(entry, bytes=library.LARGE_BYTES + 1)
    with pytest.raises(LimitError, match="was ended"):
        library.read(large, Limits(), False, lambda _: None)


ENDLESS = quote("with recursive t as (select 1 n union all select n + 1 from t) select * from t")


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "drop table kernels",
        "select",
        "select * from nothing",
        "copy kernels to '/tmp/x'",
        "",
    ],
)
def test_sql_reads_the_tables_and_nothing_else(served: Viewer, query: str) -> None:
    served.json("trace/1")
    status, _, body = served.get(f"trace/1/sql?q={quote(query)}")
    assert b"root:" not in body
    assert status == 400 or b'"rows":[]' in body.replace(b" ", b"") or query.startswith("drop")


def test_sql_answers_in_json_whatever_the_numbers_and_names_are(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "isNaN", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    with viewer(str(tmp_path)) as running:
        running.json("trace/0")
        found = running.json(
            "trace/0/sql?q=" + quote("select name, ln(0.0) as x, sqrt(-1.0) as y from events")
        )
    assert found["rows"] == [["isNaN", None, None]]


def test_a_query_ends_with_its_client(served: Viewer) -> None:
    """SQL that never ends does not outlive the page that wanted it, running or in line."""
    served.json("trace/1")
    lines = []
    for _ in range(3):
        line = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        host = f"Host: 127.0.0.1:{served.port}"
        line.sendall(
            f"GET {served.base}trace/1/sql?q={ENDLESS} HTTP/1.1\r\n{host}\r\n\r\n".encode()
        )
        lines.append(line)
    pid = processes.query_process(os.getpid())
    assert served.get("traces")[0] == 200  # nobody waits for it
    for line in lines:
        line.close()
    processes.until_gone(pid)
    assert served.json("trace/1/sql?q=select+count(*)+n+from+kernels")["rows"] == [[15]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (ENDLESS, "E_TOO_SLOW"),
        (quote("select * from generate_series(1, 1e14)"), "E_TOO_MUCH_MEMORY"),
        (quote("select 1" + "-1" * 10_000), "SIGSEGV"),
    ],
    ids=["recursive", "series", "crash"],
)
def test_the_viewer_survives_every_query(
    served: Viewer, query: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_process, "SECONDS", 1 if code == "E_TOO_SLOW" else 20)
    served.json("trace/1/sql?q=select+1")  # it is open, whichever test ran before
    status, _, body = served.get(f"trace/1/sql?q={query}")
    assert status == 400
    assert code in json.loads(body)["error"]
    assert served.get("traces")[0] == 200


def test_a_result_is_cut_at_a_thousand_rows(served: Viewer) -> None:
    found = served.json("trace/1/sql?q=" + quote("select a.id from kernels a, kernels b, events"))
    assert (len(found["rows"]), found["count"]) == (1000, 15 * 15 * 243)
