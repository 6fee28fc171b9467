"""The report of recorded traces, opened from disk: it shows what it should, and asks nothing of
anybody.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import foretrace
from browser.conftest import Browser
from foretrace.ladder.climb import climb_recorded
from foretrace.recordings import traces
from foretrace.render.html import write_report

pytestmark = pytest.mark.browser
MODULES = Path(__file__).parents[1] / "recorded" / "llama_train_modules.json.gz"
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "report.png"


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The eager MLP, the compiled one, and both side by side."""
    folder = tmp_path_factory.mktemp("reports")
    eager, compiled = (
        foretrace.open(traces()[name], cache=False) for name in ("mlp_eager", "mlp_compiled")
    )
    guesses = {
        "schema": 1,
        "hits": 1,
        "misses": 1,
        "unknown": 0,
        "guesses": [
            {
                "text": "3 gemm per mlp_fwd",
                "verdict": "hit",
                "measured": "3",
                "expected": "3",
                "why": "",
            },
            {
                "text": "gpu idle < 1%",
                "verdict": "miss",
                "measured": "27%",
                "expected": "< 1%",
                "why": "launches",
            },
        ],
    }
    climb = msgspec.to_builtins(climb_recorded("h200", ("mlp",)))
    return {
        "eager": write_report(folder / "eager.html", [eager], guesses=guesses, ladder=climb),
        "compiled": write_report(folder / "compiled.html", [compiled]),
        "both": write_report(folder / "both.html", [eager, compiled]),
    }


@pytest.mark.parametrize("name", ["eager", "compiled", "both"])
def test_opens_from_disk_without_a_word(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    browser.open(reports[name].as_uri())
    browser.screenshot(f"report_{name}.png")
    assert browser.console() == []
    assert browser.requests() == [reports[name].as_uri()]
    assert browser.run("return window.panes.length") == (2 if name == "both" else 1)


def test_a_kernel_can_be_clicked(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    kernel = browser.run("""
        const {events} = panes[0].timeline, {timeline} = panes[0];
        const at = [...events.event.keys()].find((at) => events.kind(at) === 'kernel' && events.start[at] > timeline.from);
        return [at, timeline.x(events.start[at] + events.length[at] / 2), timeline.top(events.lane[at], events.row[at]) + 5];
    """)
    _click(browser, kernel[1], kernel[2])
    text = browser.find(".detail").text
    assert browser.run("return panes[0].timeline.selected") == kernel[0]
    for expected in (
        "nvjet 256x128x64 tn bf16",
        "kernel · gemm",
        "Launched by",
        "aten::linear",
        "aten::mm",
        "cuLaunchKernelEx",
        "[[8192,768],[768,3072]]",
        "The name, part by part (nvjet)",
        "38.7 GFLOP",
    ):
        assert expected in text
    browser.screenshot("report_selected.png")


def test_keys_move_zoom_and_walk(browser: Browser, reports: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(reports["eager"].as_uri())
    canvas = browser.find("canvas")
    span = "return panes[0].timeline.to - panes[0].timeline.from"
    before = browser.run(span)
    canvas.send_keys("w")
    assert browser.run(span) == pytest.approx(before * 0.7)
    canvas.send_keys("s")
    assert browser.run(span) == pytest.approx(before)
    left = browser.run("return panes[0].timeline.from")
    canvas.send_keys("d")
    assert browser.run("return panes[0].timeline.from") == pytest.approx(left + before * 0.2)
    canvas.send_keys("a")
    assert browser.run("return panes[0].timeline.from") == pytest.approx(left)
    canvas.send_keys(Keys.ARROW_DOWN)  # the first event in view, then what is inside it
    assert browser.find(".detail h3").text == "ProfilerStep#3"
    canvas.send_keys(Keys.ARROW_DOWN)
    assert browser.find(".detail h3").text == "mlp_fwd"
    canvas.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert browser.find(".detail h3").text == "aten::linear"
    canvas.send_keys(Keys.ESCAPE)
    assert browser.find(".detail").text.startswith("Select an event")


def test_wheel_and_drag(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    before, after = browser.run("""
        const {timeline} = panes[0], {canvas} = timeline;
        const span = () => timeline.to - timeline.from, before = span();
        canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -500, ctrlKey: true, cancelable: true}));
        return [before, span()];
    """)
    assert after == pytest.approx(before * 0.36787944)
    browser.settle()
    left = browser.run("return panes[0].timeline.from")
    from selenium.webdriver import ActionChains

    ActionChains(browser.driver).drag_and_drop_by_offset(browser.find("canvas"), -100, 0).perform()
    scale = browser.run("return panes[0].timeline.scale")
    assert browser.run("return panes[0].timeline.from") == pytest.approx(left + 100 / scale)


def test_search_finds_and_walks(browser: Browser, reports: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(reports["eager"].as_uri())
    browser.find(".controls input").send_keys("gelu")
    assert browser.find(".controls [role=status]").text == "6 events"  # three ops and three kernels
    browser.find(".controls input").send_keys(Keys.ENTER)
    assert browser.find(".detail h3").text == "aten::gelu"
    browser.find(".controls input").send_keys(Keys.ENTER)
    assert browser.find(".detail h3").text == "gelu"
    browser.screenshot("report_search.png")


def test_the_kernel_table_sorts_filters_and_leads_to_the_timeline(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(reports["eager"].as_uri())
    first = ".kernels tbody tr:first-child td:first-child"
    assert browser.find(first).text == "nvjet 256x128x64 tn bf16"
    browser.run("document.querySelectorAll('.kernels th button')[0].click()")
    assert browser.find(first).text == "gelu"
    browser.find(".kernels input").send_keys("mul")
    assert browser.run("return document.querySelectorAll('.kernels tbody tr').length") == 1
    browser.run("document.querySelector('.kernels tbody button').click()")
    assert (
        browser.run("return panes[0].timeline.events.kind(panes[0].timeline.selected)") == "kernel"
    )


def test_findings_lead_to_their_proof(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    event = browser.run("""
        const link = document.querySelector('.finding [data-event]');
        link.click();
        return Number(link.dataset.event);
    """)
    assert browser.run("return panes[0].timeline.selectedEvent") == event


def test_two_traces_move_together_and_say_what_changed(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(reports["both"].as_uri())
    marks = browser.run("""
        return panes.map(({timeline: {events}}) => {
            const signs = new Set();
            for (let at = 0; at < events.count; at++) if (events.kind(at) === 'kernel') {
                signs.add(`${events.facts.marks[events.mark[at]]} ${events.label(at)}`);
            }
            return [...signs].sort();
        });
    """)
    nvjet = ["same nvjet 192x128x64 tn bf16", "same nvjet 256x128x64 tn bf16"]
    assert marks[0] == ["gone gelu", "gone mul bf16", *nvjet]
    assert marks[1] == ["new triton gelu+mul", *nvjet]
    browser.find("canvas").send_keys("w", "d")
    browser.settle()
    assert browser.run(
        "return panes.map(({timeline: t}) => [t.from - t.zero, t.to - "
        "t.zero].map(Math.round))[0].join()"
    ) == browser.run(
        "return panes.map(({timeline: t}) => [t.from - t.zero, t.to - "
        "t.zero].map(Math.round))[1].join()"
    )
    assert "GPU time falls by 12.2%" in browser.find("#comparison").text
    browser.screenshot("report_compared.png")


def test_guesses_and_ladder_are_shown_when_given(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(reports["eager"].as_uri())
    assert "✓ hit" in browser.find("#guesses").text
    assert "✗ miss" in browser.find("#guesses").text
    ladder = browser.find("#ladder").text
    assert "claims: holds " in ladder
    assert "another card" in ladder
    assert "what stayed the same" in ladder
    assert "GEMM" in ladder
    browser.run("document.querySelector('#ladder details').open = true")
    assert "mlp eager, " in browser.find("#ladder details").text


def test_dark_narrow_and_on_paper(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    browser.find("#theme").click()
    assert (
        browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    )
    browser.screenshot("report_dark.png")
    try:
        browser.driver.set_window_size(500, 900)
        browser.settle()
        wide = browser.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide == 0  # nothing sticks out sideways; wide tables scroll inside themselves
        browser.screenshot("report_narrow.png")
    finally:
        browser.driver.set_window_size(1400, 1100)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    assert len(browser.driver.print_page()) > 10_000


def test_everything_can_be_reached_by_keyboard(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["eager"].as_uri())
    count = "return [...document.querySelectorAll(arguments[0])].filter((each) => {}).length"
    assert (
        browser.run(count.format("each.tabIndex < 0"), "button, input, select, canvas, .point") == 0
    )
    assert (
        browser.run(
            count.format("!each.getAttribute('aria-label')"), "input, select, canvas, .point"
        )
        == 0
    )


def test_the_picture_of_the_readme(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["both"].as_uri())
    browser.run(
        "panes[1].goToKernel(panes[1].facts.kernels.find((row) => row.short.includes('gelu')))"
    )
    browser.run("panes[1].showStep(panes[1].step); scrollTo(0, 0)")
    browser.driver.set_window_size(1400, 1500)
    made = browser.screenshot("report.png")
    browser.driver.set_window_size(1400, 1100)
    assert made.stat().st_size > 50_000
    if not PICTURE.exists():
        PICTURE.parent.mkdir(exist_ok=True)
        shutil.copy(made, PICTURE)


def _click(browser: Browser, x: float, y: float) -> None:
    from selenium.webdriver import ActionChains

    canvas = browser.find("canvas")
    right, down = int(x - canvas.size["width"] / 2), int(y - canvas.size["height"] / 2)
    ActionChains(browser.driver).move_to_element_with_offset(canvas, right, down).click().perform()


def test_a_box_of_the_flame_graph_widens(browser: Browser, tmp_path: Path) -> None:
    trace = foretrace.open(MODULES, cache=False)
    browser.open(write_report(tmp_path / "modules.html", [trace]).as_uri())
    label = "b.getAttribute('aria-label').startsWith('LlamaMLP_0:')"
    find = f"[...document.querySelectorAll('.flame .box')].find((b) => {label})"
    assert browser.run(f"return {find}.getAttribute('aria-label')") == (
        "LlamaMLP_0: 382 us, 5.9% of GPU time"
    )
    browser.run(f"{find}.dispatchEvent(new MouseEvent('click'))")
    assert browser.run(f"return {find}.getAttribute('width')") == "100%"
    assert browser.console() == []
