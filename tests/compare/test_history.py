"""A program over its commits: exact numbers, no change out of noise, and files that are no entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from compare.traces import recorded
from foretrace.base import tables
from foretrace.cli import main
from foretrace.compare.history import (
    MOST_BYTES,
    HistoryEntry,
    add_entry,
    entry_of,
    history,
    page,
    read_entries,
)


def _entry(number: int, ns: float = 1_000_000, **more: Any) -> HistoryEntry:
    date = f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z"
    made = HistoryEntry(
        f"c{number:03}", date, [ns], "no profiler", "step", 4, ["gelu and mul"], 1000, "H200", "2.9"
    )
    return msgspec.structs.replace(made, **more)


def _runs(*times: float, **more: Any) -> list[HistoryEntry]:
    return [_entry(number, ns * 1e6, **more) for number, ns in enumerate(times)]


BEFORE, AFTER = (1.00, 1.01, 0.99, 1.02, 0.98), (1.20, 1.21, 1.19, 1.22, 1.18)


def test_a_change_has_its_commit_its_size_and_its_place() -> None:
    found = history(_runs(*BEFORE, *AFTER))
    (change,) = found.changes
    assert (change.what, change.commit, change.first, change.last) == (
        "step time", "c005", "c005", "c005",
    )  # fmt: skip
    assert (change.before, change.after) == (1_000_000, 1_200_000)
    pairs = sorted(b / a for a in BEFORE for b in AFTER)
    expected = [float(np.median(pairs)), pairs[3], pairs[-4]]  # 25 / 2 - 1.96 * sqrt(25 * 11 / 12)
    assert [change.ratio, change.low, change.high] == pytest.approx(expected)
    assert found.suspect is None
    text = tables.text(page(found))
    assert (
        "SLOWER  1.00 to 1.20 ms (1.20x, interval 1.18x to 1.22x) since c005 (2026-01-01)" in text
    )


def test_noise_is_no_change() -> None:
    """One history of 40 has a false change in 4% of the cases: of 50 at most 6 (99.6%)."""
    draw = np.random.default_rng(3)
    false = sum(bool(history(_runs(*np.exp(draw.normal(0, 0.1, 16)))).changes) for _ in range(50))
    assert false <= 6
    assert not history(_runs(*[1.0] * 12)).changes


def test_steps_of_one_run_are_one_observation() -> None:
    """A slow machine has a hundred slow steps: they are one run."""
    steps = [[1e6 * base + at for at in range(100)] for base in (1, 1.3, 1, 1.3, 1, 1.3, 1, 1.3)]
    runs = [_entry(number, times_ns=times) for number, times in enumerate(steps)]
    found = history(runs)
    assert not found.changes
    assert found.decidable
    assert "SAME  step time: no change beyond the noise between runs" in tables.text(page(found))


def test_few_runs_are_inconclusive_and_an_outlier_at_the_end_is_named() -> None:
    few = history(_runs(1, 1, 1, 1, 2, 2, 2))
    assert not few.decidable
    assert "INCONCLUSIVE" in tables.text(page(history(_runs(1, 1))))
    last = history(_runs(*BEFORE, 1.3))
    assert last.suspect is not None
    assert (last.suspect.commit, last.suspect.ratio) == ("c005", pytest.approx(1.3))
    assert "four runs decide" in tables.text(page(last))
    assert history(_runs(*BEFORE, 1.05)).suspect is None


def test_four_more_runs_of_a_commit_decide() -> None:
    again = [_entry(5, 1e6 * ns, date=f"2026-02-0{at}T00:00:00Z") for at, ns in enumerate(AFTER, 1)]
    found = history([*_runs(*BEFORE), *again])
    assert [(change.what, change.commit) for change in found.changes] == [("step time", "c005")]
    assert [row.runs for row in found.rows] == [1, 1, 1, 1, 1, 5]
    assert (found.rows[-1].median_ns, found.rows[-1].low_ns) == (1_200_000, 1_180_000)


@pytest.mark.parametrize(
    ("what", "other"),
    [("device", "A100"), ("torch", "2.10"), ("basis", "GPU time"), ("unit", "run")],
)
def test_other_circumstances_are_named_and_times_not_compared(what: str, other: str) -> None:
    runs = _runs(*BEFORE, *AFTER)
    later = [msgspec.structs.replace(run, **{what: other}) for run in runs[5:]]
    found = history([*runs[:5], *later])
    assert [(each.what, each.commit, each.after) for each in found.changes] == [
        (what, "c005", other)
    ]
    assert f"to {other}, so times are not compared at c005" in tables.text(page(found))


def test_two_cards_in_one_folder_are_two_series() -> None:
    both = zip(_runs(*BEFORE, *AFTER), _runs(*BEFORE, *BEFORE, device="A100"), strict=True)
    found = history([run for pair in both for run in pair])
    assert [(each.what, each.commit) for each in found.changes] == [
        ("device", "c000"), ("step time", "c005"),
    ]  # fmt: skip
    assert len(found.rows) == 20


def test_counts_need_no_second_run() -> None:
    """A new torch undoes a fusion: the counts are exact across both."""
    new = _entry(1, kernels=5, fusions=["add and mul"], torch="2.10", peak_bytes=1011)
    found = history([_entry(0), new])
    said = {change.what: (change.before, change.after) for change in found.changes}
    assert said == {
        "torch": ("2.9", "2.10"), "kernels": (4, 5), "fusions": (1, 1), "memory": (1000, 1011),
    }  # fmt: skip
    text = tables.text(page(found))
    assert (
        "FUSIONS       1 to 1 at c001 (2026-01-01) (lost: gelu and mul; new: add and mul)" in text
    )
    assert not history([_entry(0), _entry(1, peak_bytes=1009)]).changes
    many = history([_entry(0), _entry(1, fusions=[str(each) for each in range(100)])])
    assert "new: 10; and 97 more (--json)" in " ".join(tables.text(page(many)).split())


def test_entries_are_written_once_and_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    first, second = add_entry(folder, _entry(1)), add_entry(folder, _entry(0))
    assert add_entry(folder, _entry(1)) == first
    assert sorted(folder.iterdir()) == [second, first]
    assert read_entries(folder) == ([_entry(0), _entry(1)], [])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not an entry of a history"),
        ('{"schema": 2}', "schema 2 of a newer foretrace; update this one"),
        ('{"schema": 1, "commit": 3}', "not an entry of a history"),
        (" " * (MOST_BYTES + 1), "too large for an entry"),
        ('{"schema": 1, "a": ' + "[" * 60_000, "not an entry of a history"),
    ],
)
def test_a_file_that_is_no_entry_is_left_out_in_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(content)
    assert main(["history", str(tmp_path)]) == 2
    alone = capsys.readouterr().err
    assert said in alone
    assert alone.count("\n") == 1
    add_entry(tmp_path, _entry(0))
    assert main(["history", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "c000" in shown.out
    assert shown.err.startswith("foretrace: warning: left out: a.json: ")
    assert main(["history", str(tmp_path), "--strict"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["history", "{here}"], 2),
        (["history", "{here}/no"], 2),
        (["history", "{here}", "--add", "mlp_eager"], 2),
        (["history", "{here}", "--add", "mlp_eager", "--commit", "a/../b"], 2),
        (["history", "{here}", "--add", "mlp_eager", "--commit", "a", "--date", "today"], 2),
        (["history", "{here}", "--add", "{here}/no.json", "--commit", "a"], 3),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([each.format(here=tmp_path) for each in arguments]) == code
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_run_record_has_the_time_the_memory_and_the_versions() -> None:
    entry = entry_of(recorded("mlp compiled"), "abc", "2026-01-01T00:00:00Z")
    assert (entry.times_ns, entry.basis) == ([229_899], "no profiler")
    assert (entry.kernels, entry.fusions, entry.peak_bytes) == (4, ["gelu and mul"], 275_251_200)
    assert (entry.device, entry.torch) == ("NVIDIA H200", "2.11.0+cu130")
