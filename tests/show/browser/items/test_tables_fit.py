"""Item 6 in depth: every table fits its page, thousands of rows are a window, CSV holds the numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from foretrace.read.recordings import traces
from foretrace.show.html import write_report
from foretrace.show.html.report import marked_guesses
from opened_traces import open_made, opened, overview
from show.browser.looks import Look, Page

pytestmark = pytest.mark.browser
COPIED = "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
KERNELS = "#panel-kernels .grid:nth-of-type(2)"
OPS = 3000
# Numbers of the open tab that have no room.
CUT = """
    return [...document.querySelectorAll('.tabpanel:not([hidden]) .grid td.number')]
        .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent);
"""


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory, climb: dict[str, Any]) -> Path:
    """Guesses, a climb and matmuls: the tables that hold sentences."""
    trace = opened(traces()["mlp_eager"])
    guesses = marked_guesses([trace], ["3 gemm per mlp_fwd", "gpu idle < 1%"], None)
    target = tmp_path_factory.mktemp("wordy") / "wordy.html"
    return write_report(target, [trace], guesses=guesses, ladder=climb)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of thousands of ops, each with a name of its own."""
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"own::op_{at:04}",
            "pid": 1,
            "tid": 1,
            "ts": 10 * at,
            "dur": 1 + at / 1000,
        }
        for at in range(OPS)
    ]
    folder = tmp_path_factory.mktemp("many")
    trace = open_made({"schemaVersion": 1, "traceEvents": events}, folder, "many")
    return write_report(folder / "many.html", [trace])


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_every_tab_fits_its_page(page: Page, wordy: Path, width: int) -> None:
    page.show(wordy, Look(width, width == 390))
    tabs = page.run("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.id)")
    assert {"tab-guesses", "tab-ladder", "tab-matmuls"} <= set(tabs)
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    for tab in tabs:
        page.click(f"#{tab}")
        assert page.sticks_out() == [], tab
        assert page.run(CUT) == [], tab


def test_what_changed_fits_its_page(compared: Page) -> None:
    compared.click("#tab-changes")
    assert compared.run("return document.querySelectorAll('#panel-changes .grid').length") >= 2
    assert compared.run(CUT) == []
    assert compared.sticks_out() == []


@pytest.mark.once
def test_copied_numbers_are_those_of_look(shown: Page, training: Path) -> None:
    rows = overview(training.with_suffix(".json")).look.kernels
    shown.run("foretrace.store.set({tab: 'kernels', basis: 'recording'})")
    shown.settle()
    shown.run(COPIED)
    shown.focus(shown.found(f"{KERNELS} button", "copy as CSV"))
    shown.press("Enter")
    copied = list(csv.DictReader(io.StringIO(shown.run("return window.copied"))))
    assert len(copied) == len(rows)  # all of them, not only those that are shown
    assert sum(int(row["count"]) for row in copied) == sum(row.count for row in rows)
    stated = sorted(row.total_ns for row in rows if row.total_ns is not None)
    assert sorted(int(row["total (ns)"]) for row in copied if row["total (ns)"]) == stated
    shares = [float(row["share"]) for row in copied if row["share"]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def order_by(page: Page, title: str) -> None:
    page.run(
        f"const order = document.querySelector('{KERNELS} select'); "
        "order.value = [...order.options].find((each) => each.text === arguments[0]).value; "
        "order.dispatchEvent(new Event('change'))",
        f"by {title}",
    )
    page.settle()


def test_rows_that_are_stacked_can_be_sorted_and_walked(shown: Page) -> None:
    shown.run("foretrace.store.set({tab: 'kernels'})")
    shown.settle()
    names = f"return [...document.querySelectorAll('{KERNELS} td.name')].map((cell) => cell.textContent)"
    if shown.look.width == 390:
        assert shown.run(
            f"return document.querySelector('{KERNELS}').classList.contains('stacked')"
        )
        order_by(shown, "kernel")
        assert shown.run(names) == sorted(shown.run(names))
        order_by(shown, "total")  # as it was: others use this page
    shown.focus(f"{KERNELS} tbody .link")
    shown.press("ArrowDown", "ArrowDown", "ArrowUp")
    at = "return document.activeElement.closest('tr').dataset.at"
    assert shown.run(at) == "1"
    assert shown.state("selection") is None  # arrows in a table move there, not on the timeline


def test_thousands_of_rows_are_a_window(page: Page, many: Path) -> None:
    page.show(many, Look(1024, False))
    page.run("foretrace.store.set({tab: 'kernels'})")
    page.settle()
    rows = "return document.querySelectorAll('#panel-kernels tbody tr').length"
    assert page.run(rows) == 15
    page.click(page.found("#panel-kernels .more button", f"show all {OPS:,}"))
    assert 15 < page.run(rows) < 150
    seen = """
        const box = document.querySelector('#panel-kernels .rows.many');
        box.scrollTop = (box.scrollHeight - box.clientHeight) * arguments[0];
    """
    for part in (0.5, 0.99, 1.0, 0.0):
        page.run(seen, part)
        page.settle()
        covered = page.run("""
            const box = document.querySelector('#panel-kernels .rows.many').getBoundingClientRect();
            const rows = [...document.querySelectorAll('#panel-kernels .rows.many tbody tr')]
                .map((row) => row.getBoundingClientRect());
            return [rows[0].top <= box.top + 40, rows.at(-1).bottom >= box.bottom - 2, rows.length];
        """)
        assert covered[:2] == [True, True], part
        assert covered[2] < 150
    page.focus("#panel-kernels tbody .link")
    page.press(*(["ArrowDown"] * 40))
    assert page.run("return document.activeElement.closest('tr').dataset.at") == "40"


@pytest.mark.once
def test_kernels_follow_a_box_of_the_flame_graph(shown: Page) -> None:
    """The table then holds what the timeline does not make faint."""
    shown.run("foretrace.store.set({tab: 'flame'})")
    shown.settle()
    shown.click(shown.found("#panel-flame .flame .box", "LlamaMLP × "))
    shown.run("foretrace.store.set({tab: 'kernels'})")
    shown.wait(f"document.querySelector('{KERNELS} input').value.startsWith('> ')")
    shown.settle()
    rows = shown.run(f"return document.querySelectorAll('{KERNELS} tbody tr').length")
    assert 0 < rows <= 15
    shown.run(COPIED)
    shown.click(shown.found(f"{KERNELS} button", "copy as CSV"))
    copied = list(csv.DictReader(io.StringIO(shown.run("return window.copied"))))
    every = shown.run("return foretrace.traces[0].facts.kernels.length")
    assert 0 < len(copied) < every
    shown.run("foretrace.store.set({filter: ''})")
    shown.wait(f"document.querySelector('{KERNELS} input').value === ''")
