"""What `foretrace try` measured, as a page and in a report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from foretrace.cli import main
from foretrace.read.recordings import traces
from foretrace.schema.documents import encode
from foretrace.schema.documents.tries import TriedFix, TryDocument
from foretrace.show.html.report import tries, try_html
from show.render.test_try_page import CAST, FUSED, OTHERS, document

MLP = str(traces()["mlp_eager"])


def data(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture
def result(tmp_path: Path) -> Path:
    file = tmp_path / "result.json"
    file.write_text(encode(document(FUSED, CAST, *OTHERS)), encoding="utf-8")
    return file


def shown(tmp_path: Path, *arguments: str) -> Any:
    out = tmp_path / "out.html"
    assert main(["report", *arguments, "-o", str(out)]) == 0
    return data(out.read_text(encoding="utf-8"))


def test_every_row_of_the_table_has_its_bar() -> None:
    page = data(try_html(document(FUSED, CAST, *OTHERS)))
    assert [row[0] for row in page["table"]["rows"]] == ["fused optimizer", "bf16 autocast"]
    assert [bar["state"] for bar in page["bars"]] == ["kept", "differs"]
    assert page["bars"][0] | {"state": ""} == {
        "state": "", "median_ns": 3.2e6, "low_ns": 3.1e6, "high_ns": 3.3e6,
    }  # fmt: skip
    assert page["untouched"]["median_ns"] == 4e6


def test_folders_stay_behind_and_nothing_is_markup() -> None:
    odd = TriedFix("odd", "<script>\x1b", "raised", "-", ratio=1.0, median_ns=1.0, why="<b>")
    text = try_html(document(odd, script="/home/me/secret/train.py", path="/home/me/train.patch"))
    assert "/home/me" not in text
    page = data(text)
    assert page["head"]["paragraphs"][0].startswith("train.py · ")
    assert page["table"]["rows"][0][0] == "<script>\\x1b"
    assert page["bars"] == [{"state": "raised", "median_ns": 1.0, "low_ns": 1.0, "high_ns": 1.0}]
    assert page["diff"] == ["-a", "+b"]


def test_a_dry_run_has_no_bars() -> None:
    page = tries(document(*OTHERS))
    assert (page.bars, page.table) == ([], tries(document()).table)


def test_a_result_is_a_page_of_its_own_or_a_tab_of_a_report(tmp_path: Path, result: Path) -> None:
    alone = shown(tmp_path, str(result), "--overwrite")
    assert shown(tmp_path, MLP, "--tried", str(result), "--overwrite")["tried"] == alone
    assert shown(tmp_path, MLP, "--overwrite")["tried"] is None


@pytest.mark.parametrize("option", [["--step", "0"], ["-g", "kernels == 5"], ["--tried", "x"]])
def test_a_page_of_a_try_takes_no_option_of_a_trace(
    option: list[str], tmp_path: Path, result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(result), "-o", str(tmp_path / "out.html"), *option]) == 2
    assert "the page of a try takes no option of a trace" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_look_shows_a_result(
    form: list[str], result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(result), *form]) == 0
    out = capsys.readouterr().out
    assert out == result.read_text() + "\n" if form else "BASELINE  4.00 ms per step" in out


@pytest.mark.parametrize("text", ["[]", "{}", MLP, '{"found_by": 1, "baseline": 2, "best": 3}'])
def test_other_files_are_no_result(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text(text)
    file = text if text == MLP else str(tmp_path / "x.json")
    assert main(["report", MLP, "-o", str(tmp_path / "out.html"), "--tried", file]) == 2
    assert f"{file}: not what `foretrace try --json` prints" in capsys.readouterr().err


def test_what_was_printed_is_read_again(result: Path) -> None:
    from foretrace.schema.documents.tries import read_tried

    assert isinstance(read_tried(str(result)), TryDocument)
    assert read_tried(MLP) is None
    assert read_tried(str(result.parent)) is None
