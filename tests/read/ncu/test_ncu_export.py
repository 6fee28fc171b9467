"""Exports of Nsight Compute: those of an H200, other locales and units, and damaged ones."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counter_files import METRICS, export_text, recorded, row
from foretrace.base.errors import TraceError
from foretrace.read.ncu import CounterExport, decimal_of, factor, number, read_export
from sweep import looped


def _read(text: str) -> CounterExport:
    return read_export(text, "c.csv")


def test_an_h200s_export() -> None:
    found = _read(recorded("gelu_hbm"))
    assert len(found.launches) == 12
    assert found.notes == ()
    first = found.launches[1]
    assert (first.name, first.grid, first.block) == (
        "gelu_mul_kernel",
        (3072, 1, 1),
        (128, 1, 1),
    )
    assert first.metrics["dram__bytes_write.sum"] == 3_202_048
    assert first.metrics["gpu__time_duration.sum"] == 6560
    assert first.passes == 1


@pytest.mark.parametrize("name", ["gelu_l2", "memory", "memory_l2", "arithmetic"])
def test_every_export_of_the_h200_is_read_whole(name: str) -> None:
    text = recorded(name)
    found = _read(text)
    rows = [line for line in text.splitlines() if line[:1] == '"' and line[1:2].isdigit()]
    assert len(found.launches) == len(rows)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["4,352", "1,321.53", "1,234,567"], [4352, 1321.53, 1234567]),
        (["4.352", "1.321,53", "1.234.567"], [4352, 1321.53, 1234567]),
        (["4 352", "1 321,53", "12"], [4352, 1321.53, 12]),
        (["4\u202f352", "1\u202f321,53", "0,5"], [4352, 1321.53, 0.5]),
        (["4'352", "1'321.53", "7"], [4352, 1321.53, 7]),
        (["4352", "1321.53", "1e3"], [4352, 1321.53, 1000]),
        (["4,352", "7,100", "1"], [4352, 7100, 1]),  # nothing decides: as in English
    ],
)
def test_digits_of_other_locales(cells: list[str], values: list[float]) -> None:
    text = export_text([row("k", *cells, 1)])
    found = _read(text).launches[0].metrics
    assert [found[name] for name in list(METRICS)[:3]] == values


def test_two_ways_to_write_numbers_are_refused() -> None:
    text = export_text([row("k", "1,234,567", "0,25", "1", 1)])
    with pytest.raises(TraceError, match="two ways"):
        _read(text)


@given(st.lists(st.floats(0, 1e12).map(lambda value: f"{value:,.2f}"), min_size=1))
def test_numbers_in_english_always_read_the_same(cells: list[str]) -> None:
    assert decimal_of(cells) == "."
    assert [number(cell) for cell in cells] == [float(cell.replace(",", "")) for cell in cells]


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_nothing(text: str) -> None:
    for decimal in ".,":
        value = number(text, decimal)
        assert value is None or value == value


@pytest.mark.parametrize(
    "text", ["", "n/a", "nan", "inf", "(2, 1, 1)", "all", "1.2.3,4,5", "9e999"]
)
def test_what_is_no_number_is_missing(text: str) -> None:
    assert number(text) is None


@looped(
    ("unit", "scale"),
    [
        ("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("ns", 1), ("nsecond", 1),
        ("us", 1e3), ("usecond", 1e3), ("msecond", 1e6), ("second", 1e9), ("sector", 1),
        ("Ksector", 1e3), ("pass", 1), ("inst", 1), ("Minst", 1e6), ("%", 1), ("", 1),
        ("byte/second", None), ("furlong", None),
    ],
)  # fmt: skip
def test_units(unit: str, scale: float | None) -> None:
    assert factor(unit) == scale


@pytest.mark.parametrize(
    ("unit", "read", "said"),
    [
        ("furlong", "5", "units that are not known, not read: furlong"),
        ("Mbyte", "-5", "negative values, not read: dram__bytes_read.sum"),
    ],
)
def test_what_is_no_count_is_said_and_not_read(unit: str, read: str, said: str) -> None:
    units = dict(METRICS, **{"dram__bytes_read.sum": unit, "dram__bytes_write.sum": "Mbyte"})
    found = _read(export_text([row("k", read, "1.5", "10", 1)], units))
    assert "dram__bytes_read.sum" not in found.launches[0].metrics
    assert found.launches[0].metrics["dram__bytes_write.sum"] == 1.5e6
    assert found.notes == (f"c.csv: {said}",)


def test_launches_that_repeat_a_number_are_left_out() -> None:
    text = export_text([row("k", 1, 2, 3, 1), row("k", 9, 9, 9, 1), row("k", 4, 5, 6, 1, number=1)])
    found = _read(text)
    assert [one.metrics["dram__bytes_read.sum"] for one in found.launches] == [1, 4]
    assert found.notes == ("c.csv: 1 row repeats the number of an earlier launch and is left out",)


def test_rows_that_are_cut_short_cost_themselves() -> None:
    text = export_text([row("k", 1, 2, 3, 1), row("k", 4, 5, 6, 1, number=1)])
    found = _read(text.rstrip()[:-6])
    assert len(found.launches) == 1
    assert found.notes == ("c.csv: 1 row cannot be read and is left out",)


def test_several_exports_in_one_file() -> None:
    text = export_text([row("k", 1, 2, 3, 1)])
    assert [one.number for one in _read(text + text).launches] == [0, 0]


def test_output_of_the_program_between_the_lines() -> None:
    lines = export_text([row("k", 1, 2, 3, 1), row("l", 1, 2, 3, 1, number=1)]).splitlines()
    lines.insert(1, "loss 0.25, step 3")
    lines.insert(4, "==WARNING== Note: Running with uncontrolled GPU caches.")
    assert [one.name for one in _read("\ufeff" + "\r\n".join(lines)).launches] == ["k", "l"]


def test_the_long_page() -> None:
    head = '"ID","Process ID","Kernel Name","Block Size","Grid Size","Device","Metric Name","Metric Unit","Metric Value"'
    rows = [
        f'"0","7","k","(1, 1, 1)","(2, 1, 1)","0","{name}","{unit}","{value}"'
        for name, unit, value in (
            ("dram__bytes_read.sum", "Kbyte", "12.5"),
            ("gpu__time_duration.sum", "us", "1.60"),
            ("Registers Per Thread", "register/thread", "16"),
        )
    ]
    (launch,) = _read("\n".join([head, *rows])).launches
    assert launch.metrics == {"dram__bytes_read.sum": 12_500, "gpu__time_duration.sum": 1600}


def test_numbers_of_any_length() -> None:
    found = _read(
        export_text([row("k", "9" * 6000, 2, 3, 1), row("l", 1, 2, 3, 1, number="9" * 6000)])
    )  # type: ignore[arg-type]
    assert [one.name for one in found.launches] == ["k"]


@pytest.mark.parametrize("text", ["", "==PROF== Connected\n", "a,b\n1,2\n", '"ID"\n"0"\n', "\0\0"])
def test_files_without_launches_are_refused(text: str) -> None:
    with pytest.raises(TraceError, match=r"E_NO_COUNTERS.*ncu --import"):
        _read(text)


@given(st.data())
def test_a_damaged_export_raises_nothing_else(data: st.DataObject) -> None:
    text = export_text([row("k<4, float>(int)", 1, 2, 3, 1), row("l", 1, "2,5", 3, 1, number=1)])
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 9)) :]
    with contextlib.suppress(TraceError):
        assert _read(damaged).launches
