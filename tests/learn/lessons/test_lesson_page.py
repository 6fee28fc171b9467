"""What a page carries in place of recordings, and the file that is written."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import foretrace as ft
from foretrace.base.errors import UsageError
from foretrace.cli import main
from foretrace.learn.lessons import lesson, lessons
from foretrace.learn.lessons.documents import HowMany, PageStep
from foretrace.learn.lessons.lesson_page import lesson_page, predictable
from foretrace.learn.lessons.sitting import Sitting
from foretrace.read.recordings import traces


@cache
def opened(path: str) -> ft.Trace:
    return ft.open(path, cache=False)


NUMBERS = [
    pytest.param(each, at, id=f"{each.name}-{at + 1}")
    for each in lessons()
    for at, step in enumerate(each.steps)
    if isinstance(step.ask, HowMany)
]


@pytest.mark.parametrize(("each", "at"), NUMBERS)
def test_ranges_end_where_the_marker_says(each: Any, at: int) -> None:
    """The last number that hits and the first that does not, with every number of decimals."""
    sitting = Sitting(each, opened)
    step = each.steps[at]
    (key,) = lesson_page(Sitting(_only(each, at), opened)).steps
    for decimals, found in enumerate(key.ranges):
        for number, verdict in (
            (found.least, "hit"),
            (found.most, "hit"),
            (found.least - 1, "miss"),
            (found.most + 1, "miss"),
        ):
            if number >= 0 and found.least <= found.most:
                text = f"{number / 10**decimals:.{decimals}f}"
                said = step.ask.holds.replace("{}", text)
                assert sitting.scene(step).marked(said).verdict == verdict, said
    assert key.replies[key.right].verdict == "hit"


def _only(each: Any, at: int) -> Any:
    from msgspec.structs import replace

    return replace(each, steps=(each.steps[at],))


def test_measures_by_a_second_method() -> None:
    """Sums over the raw kernels of each call, where a page found values by halving."""
    sitting = Sitting(lesson("kernel_names"), opened)
    scene = sitting.scene(sitting.lesson.steps[3])
    trace, found = scene.trace, predictable(scene, "").measures
    kernels = trace.kernels
    assert kernels.height == 3 * found["kernels"].value
    names = kernels["name"].to_list()
    assert sum("nvjet" in name for name in names) == 3 * found["count(gemm)"].value
    times = kernels["dur_ns"].to_list()
    calls = [times[at : at + 5] for at in range(0, 15, 5)]
    typical = sorted(calls, key=sum)[1]
    assert found["time(gelu)"].value == typical[2]
    assert found["time(mul)"].value == typical[3]
    assert found["time(gemm)"].value == typical[0] + typical[1] + typical[4]
    assert found["step.time"].value == trace.run.timing.wall_ns_per_call
    assert found["gpu.busy"].value + found["gpu.idle"].value == pytest.approx(1, abs=1e-6)
    assert median(map(sum, calls)) == sum(typical)


def _data(file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert "http://" not in text
    assert "https://" not in text
    return json.loads(found[1])


def test_the_command_writes_one_lesson_or_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretrace.learn.lessons.lessons", lambda: lessons()[:2])
    target = tmp_path / "out.html"
    assert main(["lesson", "2", "--html", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert [each["number"] for each in _data(target)["lessons"]] == [2]
    assert main(["lesson", "--html", str(target)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["lesson", "--html", str(target), "--overwrite"]) == 0
    assert [each["number"] for each in _data(target)["lessons"]] == [1, 2]
    assert main(["lesson", "--html", str(tmp_path / "no" / "out.html")]) == 2
    assert main(["lesson", "99", "--html", str(tmp_path / "other.html")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_a_page_never_replaces_its_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.json.gz"
    trace.write_bytes(traces()["mlp_eager"].read_bytes())
    assert main(["lesson", str(trace), "--html", str(trace), "--overwrite"]) == 2
    assert "is the trace itself" in capsys.readouterr().err
    assert main(["lesson", str(trace), "--html", str(tmp_path / "own.html")]) == 0
    (own,) = _data(tmp_path / "own.html")["lessons"]
    assert (own["number"], own["kept_as"]) == (0, "")
    assert trace.read_bytes() == traces()["mlp_eager"].read_bytes()


def test_what_is_not_asked_says_why() -> None:
    from msgspec.structs import replace

    each = lesson("1")
    here = replace(each, steps=(replace(each.steps[0], skipped="no GPU"), *each.steps[1:2]))
    first, second = lesson_page(Sitting(here, opened)).steps
    assert isinstance(first, PageStep)
    assert (first.kind, first.asked.skipped, first.replies) == ("skipped", "no GPU", {})
    assert second.asked.code == each.steps[1].program.code


def test_a_notebook_gets_a_lesson_by_number_name_or_trace() -> None:
    assert repr(ft.lesson("linear")) == repr(ft.lesson(2))
    assert "13 lessons" in repr(ft.lesson())
    own = ft.lesson(opened(str(traces()["mlp_eager"])))
    assert repr(own).startswith("Your trace")
    with pytest.raises(UsageError, match="no lesson '99'"):
        ft.lesson(99)
