"""SQL in the viewer: it reads the tables, and ends with its client."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

import processes
from foretrace.model import query as query_process
from show.serve.running import Viewer, viewer

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
        line = socket.create_connection(("127.0.0.1", served.port), timeout=10)
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
    status, _, body = served.get(f"trace/1/sql?q={query}")
    assert status == 400
    assert code in json.loads(body)["error"]
    assert served.get("traces")[0] == 200


def test_a_result_is_cut_at_a_thousand_rows(served: Viewer) -> None:
    found = served.json("trace/1/sql?q=" + quote("select a.id from kernels a, kernels b, events"))
    assert (len(found["rows"]), found["count"]) == (1000, 15 * 15 * 243)
