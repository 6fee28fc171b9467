"""The panel of a compiled kernel: its source, what it moves, and the generated code as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace
from foretrace.schema.compiler import Compilation, CompiledLaunch, GeneratedKernel, KernelCall
from foretrace.show.html import write_report
from show.browser.conftest import Browser

pytestmark = pytest.mark.browser
COMPILED = Path(__file__).parents[2] / "data" / "compile" / "mlp" / "trace.json.gz"
SELECT = """
    const {events} = foretrace.traces[0].source;
    const at = [...events.event.keys()].find((at) => events.kind(at) === 'kernel' && events.origin(at)?.code);
    foretrace.store.set({selection: {kind: 'event', trace: 0, event: events.event[at]}});
"""
CODE = ".panel details.code"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = foretrace.open(COMPILED, cache=False)
    return write_report(tmp_path_factory.mktemp("code") / "mlp.html", [trace])


def test_the_panel_fits_and_shows_the_code(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    _select(browser)
    text = browser.find(".panel").text
    for expected in ("Source", "record.py:27", "Graph nodes", "Loads and stores", "50.3 MB"):
        assert expected in text
    code = browser.find(CODE)
    assert "Generated code (Triton" in code.text
    assert not code.get_attribute("open")
    browser.run(f"document.querySelector('{CODE}').open = true")
    for width in (1440, 1024, 390):
        browser.driver.set_window_size(width, 1200)
        browser.settle()
        browser.run(f"document.querySelector('{CODE}').scrollIntoView()")
        assert "def triton_poi_fused__unsafe_view_gelu_mul_0(" in browser.find(f"{CODE} pre").text
        assert browser.run("return document.documentElement.scrollWidth - window.innerWidth") <= 0
    browser.screenshot("code_panel_390.png")
    assert browser.console() == []
    assert browser.requests() == [page.as_uri()]


def test_code_from_a_log_is_never_markup(browser: Browser, tmp_path: Path) -> None:
    hostile = (
        "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>\u202e"
    )
    trace = foretrace.open(COMPILED, cache=False)
    name = "triton_poi_fused__unsafe_view_gelu_mul_0"
    kernel = GeneratedKernel(name, "triton", f"{hostile}\n{hostile}")
    launch = CompiledLaunch(
        Compilation("0/0", kernels=(kernel,)), KernelCall(name, False, nodes=(hostile,))
    )
    trace.compiled = dict.fromkeys(trace.gpu.id.tolist(), launch)
    page = write_report(tmp_path / "hostile.html", [trace])
    browser.open(page.as_uri())
    _select(browser)
    browser.run(f"document.querySelector('{CODE}').open = true")
    assert "<img src=x" in browser.find(f"{CODE} pre").text
    assert "\\u202e" in browser.find(f"{CODE} pre").text
    assert browser.run("return window.hacked") is None
    assert browser.console() == []


def _select(browser: Browser) -> None:
    browser.run(SELECT)
    browser.wait(f"document.querySelector('{CODE}')")
