"""Any table as JSON and CSV: what JSON cannot say is null, what a terminal or a spreadsheet would
act on is text.
"""

from __future__ import annotations

import json

import polars as pl

from foretrace.show.render.export import AT_ONCE, csv_parts, json_parts

ODD = [float("nan"), float("inf"), float("-inf"), 1.5]


def test_numbers_that_are_not_finite_are_null_and_words_stay_words() -> None:
    frame = pl.DataFrame({"name": ["isNaN", "Infinity", "a", "b"], "x": ODD, "all": [ODD] * 4})
    rows = json.loads("".join(json_parts(frame)))["rows"]
    assert [row["x"] for row in rows] == [None, None, None, 1.5]
    assert rows[0] == {"name": "isNaN", "x": None, "all": [None, None, None, 1.5]}
    assert rows[1]["name"] == "Infinity"


def test_a_csv_acts_on_neither_a_terminal_nor_a_spreadsheet() -> None:
    names, chains = ["\x1b[31mred", "a\u202eb", "=1+1"], [["=cmd()", "\x1b"], [], ["aten::mm"]]
    frame = pl.DataFrame({"name": names, "chain": chains, "n": [-1, 2, 3]})
    text = "".join(csv_parts(frame))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.splitlines() == [
        "name,chain,n",
        '\\x1b[31mred,"[""=cmd()"",""\\u001b""]",-1',
        "a\\u202eb,[],2",
        """'=1+1,"[""aten::mm""]",3""",
    ]


def test_parts_join_into_one_document() -> None:
    for rows in (0, 1, AT_ONCE, 2 * AT_ONCE + 1):
        frame = pl.DataFrame({"n": range(rows)})
        document = json.loads("".join(json_parts(frame)))
        assert document == {
            "schema": 1,
            "columns": ["n"],
            "rows": [{"n": n} for n in range(rows)],
        }
        assert "".join(csv_parts(frame)).splitlines() == ["n", *map(str, range(rows))]
