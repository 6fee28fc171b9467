"""SQL over a trace reads its tables; a mistake gets one line that says what to write."""

from __future__ import annotations

import pytest

import foretrace
from corpus.places import RECORDED
from foretrace.errors import UsageError

TRACE = foretrace.open(RECORDED / "mlp_eager.json.gz", cache=False)


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
        TRACE.sql(query)


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) n from kernels",
        "/* all */ -- of them\n WITH k AS (SELECT * FROM kernels) SELECT count(*) n FROM k",
        "(select count(*) n from kernels)",
    ],
)
def test_what_a_query_may_begin_with(query: str) -> None:
    assert TRACE.sql(query)["n"].to_list() == [15]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nme from kernels", "no column 'nme': did you mean name or op_name?"),
        ("select k.durns from kernels k", "no column 'durns': did you mean dur_ns"),
        ("select * from kernel", "no table 'kernel': did you mean kernels?"),
        ("select zzzz from kernels", "no column 'zzzz': `foretrace sql TRACE` lists them"),
    ],
)
def test_an_unknown_name_gets_the_nearest(query: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        TRACE.sql(query)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 100
