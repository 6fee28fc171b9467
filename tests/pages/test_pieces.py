"""The pieces of a report, without a browser."""

from __future__ import annotations

import base64
import json
import re
import runpy
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretrace
from foretrace.base.errors import UsageError
from foretrace.pages import page, report, write_report
from foretrace.pages.page import Packed, pack
from foretrace.pages.timeline import Timeline, free_rows
from foretrace.read.recordings import traces
from opened_traces import opened


def unpack(packed: Packed) -> dict[str, list[int]]:
    """What columns.ts does, in plain Python."""
    data, at, columns = zlib.decompress(base64.b64decode(packed.data)), 0, {}
    for name in packed.columns:
        values: list[int] = []
        for _ in range(packed.rows):
            number, shift = 0, 0
            while True:
                byte = data[at]
                number, shift, at = number | (byte & 127) << shift, shift + 7, at + 1
                if not byte & 128:
                    break
            value = (number >> 1) ^ -(number & 1)
            values.append(value + (values[-1] if name in packed.differences and values else 0))
        columns[name] = values
    return columns


@given(st.lists(st.integers(-(2**52), 2**52)), st.booleans())
def test_columns_come_back_as_they_were(values: list[int], differences: bool) -> None:
    packed = pack(
        {"a": np.array(values, np.int64), "b": np.arange(len(values))},
        frozenset({"a"} if differences else ()),
    )
    assert unpack(packed) == {"a": values, "b": list(range(len(values)))}


def test_rows_of_a_stream_never_overlap() -> None:
    start, end = np.array([0, 5, 6, 10, 20]), np.array([10, 8, 20, 12, 30])
    assert free_rows(start, end).tolist() == [0, 1, 2, 0, 0]


@pytest.mark.parametrize("name", sorted(traces()))
def test_a_timeline_holds_every_event_that_lasts_once(name: str) -> None:
    trace = opened(traces()[name])
    timeline = Timeline(trace)
    assert len(np.unique(timeline.event)) == len(timeline)
    assert set(trace.gpu.id[trace.gpu.usable].tolist()) <= set(timeline.event.tolist())
    assert set(np.flatnonzero(trace.host.is_op & trace.host.lasting).tolist()) <= set(
        timeline.event.tolist()
    )
    for lane in (at for at, lane in enumerate(timeline.lanes) if lane.gpu):  # host ranges may cross
        for row in range(timeline.lanes[lane].rows):
            mine = np.flatnonzero((timeline.lane == lane) & (timeline.row == row))
            assert (timeline.start[mine][1:] >= (timeline.start + timeline.length)[mine][:-1]).all()


def test_the_data_block_cannot_be_left() -> None:
    text = page.json_block({"</script>": "<!-- & \u2028\u2029 \ud800"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"</script>": "<!-- & \u2028\u2029 ?"}


def test_a_report_holds_no_address_and_no_markup_from_names() -> None:
    text = report([opened(traces()["mlp_eager"])])
    assert "http://" not in text
    assert "https://" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]


def test_the_same_trace_gives_the_same_bytes() -> None:
    trace = traces()["mlp_compiled"]
    assert report([foretrace.open(trace, cache=False)]) == report(
        [foretrace.open(trace, cache=False)]
    )


def test_the_script_writes_text_and_nothing_else() -> None:
    script = page.read("bundle/main.js")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new "
        r"Function|DOMParser|srcdoc",
        script,
    )
    assert not re.search(r"</script|<!--|https?://", script, re.IGNORECASE)


def test_a_report_never_replaces_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(traces()["mlp_eager"].read_bytes())
    with pytest.raises(UsageError, match="is the trace itself"):
        write_report(path, [foretrace.open(path, cache=False)])
    assert path.read_bytes() == traces()["mlp_eager"].read_bytes()


def test_the_command_writes_one_file_and_minds_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    out = tmp_path / "out.html"
    arguments = [
        "report",
        str(traces()["mlp_eager"]),
        str(traces()["mlp_compiled"]),
        "-o",
        str(out),
        "--check",
        "total.kernels == 4",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert main(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--step", "99"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


@pytest.mark.parametrize("option", ["--ladder", "--predictions"])
@pytest.mark.parametrize(
    "text", ["[]", "{}", "nonsense", '{"claims": [1], "guesses": [1], "article": [], "counts": {}}']
)
def test_other_documents_are_refused(
    option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    (tmp_path / "x.json").write_text(text)
    out = str(tmp_path / "out.html")
    assert (
        main(["report", str(traces()["mlp_eager"]), "-o", out, option, str(tmp_path / "x.json")])
        == 2
    )
    assert "x.json: " in capsys.readouterr().err


ROOT = Path(__file__).parents[2]


def test_the_types_are_those_of_the_structs() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "web_types.py"))
    written = tool["FILE"].read_text(encoding="utf-8")
    assert written == tool["document"](), "run: python tools/web_types.py, then make web"
