"""The viewer in a browser of its own, so that a page stays open from one test to the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from foretrace.read.recordings import traces
from foretrace.show.html import write_report
from opened_traces import opened
from show.browser import chromium, made
from show.browser.conftest import Browser
from show.browser.looks import LOOKS, WIDTHS, Look, Page
from sweep import FULL


@pytest.fixture(scope="session")
def page(programs: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    driver = chromium.start(programs, tmp_path_factory.mktemp("items"))
    yield Page(Browser(driver))
    driver.quit()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All tests of one look run together, on one page; those marked `colours` in all looks, those
    marked `once` in one.
    """
    if "look" in metafunc.fixturenames:
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        every = FULL or "colours" in marks
        looks = LOOKS if every else WIDTHS[:1] if "once" in marks else WIDTHS
        metafunc.parametrize("look", looks, ids=str, scope="session")


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that has everything: modules, Python frames, threads that wait, memory, findings."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "training.json").write_bytes(made.training())
    trace = opened(folder / "training.json")
    return write_report(folder / "training.html", [trace])


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The MLP eager, compiled and of Liger, in one page."""
    names = ("mlp_eager", "mlp_compiled", "mlp_liger")
    found = [opened(traces()[name]) for name in names]
    return write_report(tmp_path_factory.mktemp("three") / "three.html", found)


@pytest.fixture
def shown(page: Page, training: Path, look: Look) -> Page:
    """The page of one trace, as it opens."""
    page.show(training, look)
    return page


@pytest.fixture
def compared(page: Page, three: Path, look: Look) -> Page:
    """The page of three traces, as it opens."""
    page.show(three, look)
    return page
