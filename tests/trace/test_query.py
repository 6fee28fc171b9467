"""A query reads the tables of a trace; a mistake gets one line that says what to write."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest

import foretrace
from corpus.places import RECORDED
from foretrace.base.errors import UsageError
from foretrace.trace import query as sql
from foretrace.trace.query_child import _answer

TRACE = foretrace.open(RECORDED / "mlp_eager.json.gz", cache=False)


def ask(query: str) -> pl.DataFrame:
    """What the process of a query answers, without the process."""
    tables, reply = sql.tables_of(TRACE, query), io.BytesIO()
    _answer(tables, query, 1000, reply)
    said, _, rows = reply.getvalue().partition(b"\n")
    if error := json.loads(said).get("error"):
        raise sql.mistake(error, TRACE, tables)
    return pl.read_ipc(rows)


@pytest.mark.parametrize(
    "query",
    [
        "drop table kernels",
        "DELETE FROM kernels",
        "truncate table kernels",
        "update kernels set name = 'x'",
        "create table a as select 1",
        "-- select\ndrop table kernels",
        "selects",
        "",
    ],
)
def test_a_query_only_reads(query: str) -> None:
    with pytest.raises(UsageError, match="begin with SELECT or WITH"):
        ask(query)


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) n from kernels",
        "/* all */ -- of them\n WITH k AS (SELECT * FROM kernels) SELECT count(*) n FROM k",
        "(select count(*) n from kernels)",
    ],
)
def test_what_a_query_may_begin_with(query: str) -> None:
    assert ask(query)["n"].to_list() == [15]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nme from kernels", "no column 'nme': did you mean name or op_name?"),
        ("select k.durns from kernels k", "no column 'durns': did you mean dur_ns"),
        ("select * from kernel", "no table 'kernel': did you mean kernels?"),
        ("select zzzz from kernels", "no column 'zzzz': choose one of id, name, ts_ns"),
    ],
)
def test_an_unknown_name_gets_the_nearest(query: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        ask(query)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


READERS = ("read_csv", "read_parquet", "read_ipc", "read_json", "READ_CSV", "Read_Csv", "scan_csv")
AROUND = (
    "select * from {reads}({path})",
    "select * from {reads}/**/({path})",
    "select * from {reads} -- x\n ({path})",
    'select * from "{reads}"({path})',
    "select * from `{reads}`({path})",
    "select * from [{reads}]({path})",
    "with t as (select * from {reads}({path})) select * from t",
    "select count(*) from kernels k join {reads}({path}) t on true",
    "select * from kernels where name in (select * from {reads}({path}))",
    "select 1 union all select * from {reads}({path})",
)
OTHERS = (
    "select * from {path}",
    "select * from {bare}",
    'select * from "{bare}"',
    "from {path}",
    "select * from glob({path})",
    "select * from csv_scan({path})",
    "select * from parquet_scan({path})",
    "select pg_read_file({path})",
    "select readfile({path})",
    "select load_file({path})",
    "select load_extension({path})",
    "select lo_import({path})",
    "select * from kernels into outfile {path}",
    "explain analyze select * from {path}",
    "show tables from {path}",
    "copy kernels to {path}",
    "copy kernels from {path}",
    "attach {path} as other",
    "create external table t stored as csv location {path}",
    "create table t as select * from {path}",
    "import database {path}",
    "load {path}",
    "pragma database_list",
    "set a = {path}",
    "select 1; copy kernels to {path}",
)
FILE_QUERIES = [form.replace("{reads}", reader) for reader in READERS for form in AROUND] + [
    *OTHERS
]


def test_no_query_reads_or_writes_a_file(tmp_path: Path) -> None:
    """SQL file access: none of these reads a file, and none writes one."""
    assert len(FILE_QUERIES) >= 80
    secret = tmp_path / "t.csv"
    secret.write_text("secret\ncanary\n")
    for query in FILE_QUERIES:
        asked = query.format(path=f"'{secret}'", bare=secret)
        try:
            answer = repr(ask(asked).rows())
        except UsageError as refused:
            answer = str(refused)
        assert "canary" not in answer, asked
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("t.csv", "secret\ncanary\n")
    ]
