"""The report of recorded traces, opened from disk: it asks nothing of anybody, and shows what it was
given.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.pages import write_report
from foretrace.read.recordings import traces
from opened_traces import opened
from pages.browser.audit import faint_texts, nameless
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The eager MLP, and beside the compiled one."""
    folder = tmp_path_factory.mktemp("reports")
    eager, compiled = (opened(traces()[name]) for name in ("mlp_eager", "mlp_compiled"))
    return {
        "eager": write_report(folder / "eager.html", [eager]),
        "both": write_report(folder / "both.html", [eager, compiled]),
    }


@pytest.mark.parametrize("name", ["eager", "both"])
def test_opens_from_disk_without_a_word(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    browser.open(reports[name].as_uri())
    assert browser.console() == []
    assert browser.requests() == [reports[name].as_uri()]
    assert browser.run("return foretrace.traces.length") == (2 if name == "both" else 1)


@pytest.mark.parametrize("width", [1440, 390])
def test_everyone_can_read_it(browser: Browser, reports: dict[str, Path], width: int) -> None:
    """In both colour schemes."""
    browser.driver.set_window_size(width, 900)
    for scheme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.open(reports["both"].as_uri())
        browser.settle()
        assert faint_texts(browser) == []
        assert nameless(browser) == []


def test_an_address_restores_the_view(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    shown = {
        "view": {"from": 100_000, "to": 300_000},
        "selection": {
            "kind": "event",
            "trace": 0,
            "event": browser.run("return foretrace.traces[0].source.events.event[0]"),
        },
        "tab": "kernels",
        "filter": "gemm",
    }
    browser.run("foretrace.store.set(arguments[0])", shown)
    browser.wait("location.hash.includes('filter=gemm')")
    address = browser.run("return location.hash")
    browser.open(reports["eager"].as_uri())
    assert browser.run("return foretrace.store.state.filter") == ""
    browser.open(f"{reports['eager'].as_uri()}{address}")
    browser.settle()
    state = browser.run("return foretrace.store.state")
    assert {key: state[key] for key in shown} == shown


def test_a_link_of_a_stranger_does_no_harm(browser: Browser, reports: dict[str, Path]) -> None:
    """What is not sound in an address is left out."""
    wrong = "#view=9_1&select=event.9.1&tab=<img>&pin=x&mark=NaN&align=__proto__&filter=%3Cimg%3E"
    browser.open(f"{reports['eager'].as_uri()}{wrong}")
    browser.settle()
    assert browser.run("return foretrace.store.state.view") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.console() == []
