"""The page of a job in a real browser: it fits any width, and keys reach every cell and span."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.show.html.job_report import job_html
from job_documents import MS, job_document
from job_lanes import job_lanes
from show.browser.conftest import Browser

pytestmark = pytest.mark.browser
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_thousand_ranks_can_be_read_and_walked(browser: Browser, tmp_path: Path) -> None:
    document = job_document(1_024, 10, slow=617, hosts=128)
    cells = [
        replace(cell, wall_ns=20 * MS) if (cell.rank, cell.step) == (333, 4) else cell
        for cell in document.cells
    ]
    target = tmp_path / "job.html"
    target.write_text(job_html(replace(document, cells=cells), job_lanes()), encoding="utf-8")
    browser.open(target.as_uri())
    for width in (1440, 1024, 390):
        browser.driver.set_window_size(width, 1000)
        browser.settle()
        assert browser.run(OVERFLOW) == 0
        held = browser.run("return heat.per")
        column = 333 // held
        assert browser.run("return heat.cell(arguments[0], 4).rank", column) == 333  # none is lost
    status = "return document.querySelector('.heat [role=status]').textContent"
    browser.run("heat.canvas.focus(); heat.select(arguments[0], 4)", column)
    assert browser.run(status) == (
        "time 20.0 ms on rank 333 (node-41) in step 4, 1.66x the median, "
        f"the largest of ranks {column * held} to {column * held + held - 1}; "
        f"the least is 12.0 ms on rank {column * held}."
    )
    key = "heat.canvas.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"
    browser.run(key, "Enter")
    browser.settle()
    assert browser.run("return [heat.per, heat.last - heat.first]") == [1, held]
    for name in ("ArrowRight", "ArrowRight", "ArrowDown"):
        browser.run(key, name)
    assert f"on rank {column * held + 1} (" in browser.run(status)
    browser.run(key, "Escape")
    drawn = browser.run(
        "const canvas = document.querySelector('.minimap canvas'); return [...canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data].some((byte) => byte > 0)"
    )
    assert drawn, "the minimap shows what the ranks do"
    browser.find("input[value=wait]").click()
    assert "Median 2.00 ms, largest 2.00 ms" in browser.run(status)
    least = browser.run("return heat.cell(Math.floor(617 / heat.per), 4).least")
    assert (least["rank"], least["value"]) == (617, 0)  # the rank that others wait for
    browser.run("""
        const {source: {events}} = foretrace.traces[0], event = events.event[events.kindNumber.indexOf(1)];
        foretrace.store.set({selection: {kind: 'event', trace: 0, event}});
    """)
    browser.wait(
        "document.querySelector('.panel').textContent.includes('Waits for rank 3 (node-1)')"
    )
    browser.find("canvas.tracks").send_keys("\ue013")  # up: to the rank that came last
    browser.wait("document.querySelector('.panel').textContent.includes('Came last: ')")
    browser.screenshot("job.png")
    browser.find("#theme").click()
    browser.settle()
    assert browser.console() == []
    assert browser.requests() == [target.as_uri()]


def test_who_makes_others_wait_is_the_darkest_column(browser: Browser, tmp_path: Path) -> None:
    document = job_document(32, 6, slow=17, hosts=4)
    cells = [replace(cell, delays_ns=2 * MS if cell.rank == 17 else 0) for cell in document.cells]
    target = tmp_path / "job.html"
    target.write_text(job_html(replace(document, cells=cells), job_lanes()), encoding="utf-8")
    browser.driver.set_window_size(1440, 900)
    browser.open(target.as_uri())
    browser.settle()
    assert browser.run("return document.querySelector('.heat input:checked').value") == "delays"
    dark = browser.run("""
        const {columnCount, canvas, cellWidth, cellHeight} = heat, pen = canvas.getContext('2d');
        const light = (column) => {
            const x = heat.left(column) + cellWidth / 2, y = heat.top(2) + cellHeight / 2;
            return pen.getImageData(x, y, 1, 1).data.slice(0, 3).reduce((sum, byte) => sum + byte, 0);
        };
        const all = Array.from({length: columnCount}, (_, column) => light(column));
        return all.indexOf(Math.min(...all));
    """)
    assert dark == 17
    table = "document.querySelector('.tables .grid')"
    assert not browser.run(f"return {table}.classList.contains('stacked')"), "a real table"
    first = browser.run(f"return {table}.querySelector('tbody td').textContent")
    assert first == "17 (node-2)", "rank and host name the row"
    sticky = f"return getComputedStyle({table}.querySelector('tbody td')).position"
    assert browser.run(sticky) == "sticky"
