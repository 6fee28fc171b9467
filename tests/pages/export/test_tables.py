"""Tables as JSON, CSV and text, and stacks for other tools."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from foretrace.cli import foretrace as program
from foretrace.pages.export.tables import collapsed, csv_parts, exported, json_rows, speedscope
from foretrace.trace.flame import Stack
from opened_traces import opened

ODD = [float("nan"), float("inf"), float("-inf"), 1.5]


def test_numbers_that_are_not_finite_are_null_and_words_stay_words() -> None:
    frame = pl.DataFrame({"name": ["isNaN", "Infinity", "a", "b"], "x": ODD, "all": [ODD] * 4})
    rows = json.loads(json.dumps(json_rows(frame), allow_nan=False))
    assert [x for _, x, _ in rows] == [None, None, None, 1.5]
    assert rows[0] == ["isNaN", None, [None, None, None, 1.5]]
    assert rows[1][0] == "Infinity"


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


MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"


def test_names_stay_in_their_line() -> None:
    lines = [*collapsed([Stack(("a\nb", "\x1b[2J;x"), 3, 1)])]
    assert lines == ["a\\nb;\\x1b[2J:x 3\n"]


def test_speedscope_has_the_published_shape() -> None:
    stacks = [Stack(("a", "b"), 3, 1), Stack(("a", "c", "b"), 4, 2)]
    document = json.loads(speedscope(stacks, "run"))
    (profile,) = document["profiles"]
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["shared"] == {"frames": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    assert (profile["type"], profile["unit"]) == ("sampled", "nanoseconds")
    assert profile["samples"] == [[0, 1], [0, 2, 1]]
    assert profile["weights"] == [3, 4]
    assert (profile["startValue"], profile["endValue"]) == (0, 7)


def test_csv_has_a_row_for_each_kernel() -> None:
    trace = opened(MODULES)
    rows = [*csv.DictReader(io.StringIO(exported(trace, "csv")))]
    assert len(rows) == trace.kernels.height
    backward = next(row for row in rows if row["short"] == "embedding bwd bf16")
    assert backward["module"] == "LlamaForCausalLM_0/LlamaModel_0/Embedding_0"
    assert (backward["pass"], backward["op_name"]) == ("backward", "aten::embedding_dense_backward")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--to", "csv", "-o", "/no/where/x"], "no folder /no/where"),
        (["--to", "hub", "-o", "me/x", "--overwrite"], "--overwrite is no option of --to hub"),
        (["--to", "csv", "--keep", "names"], "--keep is no option of --to csv"),
        (["--to", "perfetto", "-o", "x.json"], "--annotated and -o FILE go together"),
        (["--to", "shared"], "pass -o FOLDER"),
        (["--to", "shared", "-o", "copy.json.gz"], "copies go into a folder"),
        (["--to", "shared", "-o", "x", "--keep", "all"], "choose from names"),
        (["--to", "hub", "-o", "a b"], "no bucket"),
    ],
)
def test_wrong_usage(given: list[str], said: str) -> None:
    from foretrace.base.errors import UsageError

    ran = CliRunner().invoke(program, ["export", "mlp_eager", *given])
    assert isinstance(ran.exception, UsageError)
    assert said in str(ran.exception)
