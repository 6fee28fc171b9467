"""A query in a process of its own: whatever it does, it ends in a result or in one line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import foretrace
import processes
from corpus.places import RECORDED
from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, UsageError
from foretrace.trace import query as query_process
from foretrace.trace.query import QueryProcess

MLP = RECORDED / "mlp_eager.json.gz"
TRACE = foretrace.open(MLP, cache=False)
ENDLESS = "with recursive t as (select 1 as n union all select n + 1 from t) select * from t"


def ask(query: str, rows: int = 1000) -> query_process.QueryResult:
    with contextlib.closing(QueryProcess()) as process:
        return process.run(TRACE, query, Limits(), rows)


def test_a_result_and_its_first_rows() -> None:
    whole = ask("select id, name, grid, dur_ns from kernels order by id")
    kernels = TRACE.kernels.select("id", "name", "grid", "dur_ns")
    assert whole.frame.equals(kernels)
    first = ask("select name from kernels", 3)
    assert (first.frame.height, first.count) == (3, 15)
    with pytest.raises(UsageError, match="no column 'nme': did you mean name"):
        ask("select nme from kernels")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("select sum(a.id * b.id * c.id) from events a, events b, events c, events d", "E_TOO"),
        ("select * from generate_series(1, 100000000000000)", "E_TOO_MUCH_MEMORY"),
        ("select * from generate_series(1, 1e14)", "E_TOO_MUCH_MEMORY"),
        ("select unnest(generate_series(1, 1000000000)) from kernels", "E_TOO_MUCH_MEMORY"),
    ],
    ids=["cross join", "series", "series of floats", "unnested series"],
)
def test_what_never_ends_is_stopped(query: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL that never ends aborts nothing but its own process."""
    monkeypatch.setattr(query_process, "SECONDS", 2)
    monkeypatch.setattr(query_process, "MEMORY", 1 << 30)
    with pytest.raises(LimitError) as caught:
        ask(query)
    assert code in caught.value.code
    assert "--limit" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("function", ["read_csv", "read_parquet"])
def test_the_process_can_open_no_file(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if a query got past the check of its words."""
    TRACE.kernels.select(pl.lit("canary")).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("secret\ncanary\n")
    monkeypatch.setattr(query_process, "tables_of", lambda trace, query: {})
    with pytest.raises(UsageError, match="os error 24"):
        ask(f"select * from {function}('{tmp_path}/t.{function.removeprefix('read_')}')")


def test_the_process_inherits_nothing_it_does_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary")
    with open(MLP, "rb") as kept:
        os.set_inheritable(kept.fileno(), True)
        process = QueryProcess()
    with contextlib.closing(process):
        pid = process.pid
        processes.until_started(pid)
        home = Path(f"/proc/{pid}")
        assert b"canary" not in (home / "environ").read_bytes()
        assert b"mlp_eager" not in (home / "cmdline").read_bytes()
        held = set()
        for file in (home / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it opens and closes files as it starts
                held.add(os.readlink(file))
        assert str(MLP) not in held
        assert os.readlink(home / "cwd") == "/"
    processes.until_gone(pid)


ASKING = """
import sys
import foretrace
from foretrace.base.budget import Limits
from foretrace.trace.query import QueryProcess
QueryProcess().run(foretrace.open(sys.argv[1], cache=False), sys.argv[2], Limits(), 10)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_ends_the_viewer_ends_its_query(number: signal.Signals) -> None:
    """Ctrl+C leaves no query behind; neither does a kill."""
    command = [sys.executable, "-c", ASKING, str(MLP), ENDLESS]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        started = processes.query_process(running.pid)
        running.send_signal(number)
        running.wait(30)
    processes.until_gone(started)
