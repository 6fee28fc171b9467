"""Lessons in a real browser: by keyboard alone, on a narrow screen, with the terminal's verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.base.errors import UsageError
from foretrace.learn.lessons import lessons
from foretrace.learn.lessons.documents import HowMany, LessonStep, PickOne, Predict
from foretrace.learn.lessons.lesson_page import lesson_html, lesson_page
from foretrace.learn.lessons.lines import answer_text
from foretrace.learn.lessons.own import own_sitting
from foretrace.learn.lessons.sitting import DIGITS, Sitting
from pages.browser import hostile
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser
ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
VISIBLE = """
const { top, bottom } = document.querySelector(arguments[0]).getBoundingClientRect();
return 0 <= top && bottom <= innerHeight;
"""
NUMBERS = ("0", "1", "2", "3", "3.2", "4", "4.30", "4.31", "5.5", "22", "23", "28", "8192")
PREDICTIONS = (
    "kernels == 5",
    "in mlp_fwd: kernels == 4",
    "kernels is 5",
    "at most nothing",
    "gemm >= 3",
    "pointwise != 2",
    "memset at most 1",
    "gpu time == 236 us",
    "gpu time == 236.4us",
    "gpu time == 236.5 us",
    "gpu time < 0.3 ms",
    "gemm time about 180 us",
    "gemm time > 200us",
    "gemm time > 200",
    "wall time <= 242 us",
    "gpu busy > 97%",
    "gpu idle < 2.2%",
    "gemm == 2.5",
    "every gemm is bf16",
    "Every GEMM is bf16.",
    "gemms are bfloat16",
    "no kernel is fp32",
    "gemm is not memory-bound",
    "each kernel is nvjet",
    "some kernel has epilogue bias",
    "every gemm has layout tn",
    "every gemm has layout nn",
    "some gemm has tile 256x128",
    "gelu has vec 8",
    "gelu has vec 4",
    "last gemm has tile 128x128",
    "no gemm has splitk",
    "first gemm is compute-bound",
)


@cache
def opened(path: str) -> ft.Trace:
    return ft.open(path)


@cache
def sittings() -> list[Sitting]:
    return [Sitting(each, opened) for each in lessons()]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("lessons") / "lessons.html"
    target.write_text(
        lesson_html([lesson_page(each, each.lesson.name) for each in sittings()]), encoding="utf-8"
    )
    return target


@pytest.fixture
def shown(browser: Browser, page: Path) -> Browser:
    """The page without progress."""
    browser.open(page.as_uri())
    browser.run("localStorage.clear()")
    browser.open(page.as_uri())
    return browser


def press(browser: Browser, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(browser.driver).send_keys(key).perform()


def said(browser: Browser) -> str:
    return str(browser.run("return document.querySelector('.said').textContent"))


def test_a_lesson_is_finished_with_the_keyboard_alone_on_a_narrow_screen(shown: Browser) -> None:
    shown.driver.set_window_size(390, 844)
    assert shown.run("return innerWidth") == 390
    while shown.run("return document.activeElement.dataset.lesson") != "1":
        press(shown, TAB)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert shown.run(outline) == "solid"
    press(shown, ENTER)
    for keys, verdict in (
        (("?", "1", ENTER), "✗ MissNot 1. Eager PyTorch runs each op"),
        (("2",), "✗ MissNot 2. The kernels are smaller than you think"),
        (("3",), "✓ HitIt is 3: the tensor cores."),
    ):
        press(shown, *keys)
        assert said(shown).startswith(verdict)
        assert shown.run(OVERFLOW) == 0
        assert shown.run(outline) == "solid"
        assert shown.run(VISIBLE, ".said")
        assert shown.run(VISIBLE, ".lanes")
        press(shown, ENTER)
    assert "4 of 4" in shown.find(".lesson").text
    press(shown, "b", "s", "s")
    end = shown.find(".lesson").text
    assert "0 of 4 right, 2 skipped" in end
    assert "foretrace docs how-to-idle-gpu" in end
    assert shown.run(OVERFLOW) == 0
    press(shown, ENTER)
    assert "Lesson 2: What nn.Linear dispatches" in shown.find(".lesson").text
    press(shown, ESCAPE)
    assert shown.run("return document.activeElement.textContent").endswith("4 questions")
    assert "0 of 4 right" in shown.find("[data-lesson='1']").text
    assert shown.console() == []


def answers(step: LessonStep, right: str) -> Iterator[str]:
    """Every choice; every number that a lesson foresees, the right one, and others."""
    if isinstance(step.ask, PickOne):
        yield from (*DIGITS[: len(step.ask.choices) + 1], "b", "")
    elif isinstance(step.ask, HowMany):
        yield from (*step.ask.misread, right, f"{right} %", *NUMBERS, "two", "-1", "1e3", "1,000")
    else:
        yield from PREDICTIONS


def at_the_terminal(sitting: Sitting, at: int, answer: str) -> dict[str, Any] | None:
    sitting.at = at
    try:
        found = sitting.answer(answer)
    except UsageError:
        return None
    misread = [f"Not {found.answer}. {found.misread}"] if found.misread else []
    return {"verdict": found.verdict, "said": [*misread, answer_text(found)]}


def differences(browser: Browser, sitting: Sitting, number: int) -> list[tuple[Any, ...]]:
    """Where the page and the terminal say different things to one answer."""
    mark = """
    const [number, at, texts] = arguments;
    lessonPage.open(lessonPage.lessons[number], false);
    const { sitting } = lessonPage;
    sitting.restart();
    for (let skipped = 0; skipped < at; skipped++) sitting.skip();
    return texts.map((text) => {
      const mark = sitting.answer(text);
      if (mark.problem !== undefined) return null;
      sitting.back();
      return mark;
    });
    """
    right = "return lessonPage.lessons[arguments[0]].steps[arguments[1]].right"
    found: list[tuple[Any, ...]] = []
    for at, step in enumerate(sitting.lesson.steps):
        given = list(answers(step, browser.run(right, number, at)))
        for answer, here in zip(given, browser.run(mark, number, at, given), strict=True):
            there = at_the_terminal(sitting, at, answer)
            if here and there and isinstance(step.ask, Predict):
                del here["said"], there["said"]  # the terminal adds the likely reason of a miss
            if here != there:
                found.append((sitting.lesson.name, at + 1, answer, here, there))
    return found


def test_the_page_says_what_the_terminal_says(shown: Browser) -> None:
    found = [each for at, one in enumerate(sittings()) for each in differences(shown, one, at)]
    assert found == []


def test_hostile_names_are_text_in_a_lesson_about_a_trace(browser: Browser, tmp_path: Path) -> None:
    trace, target = tmp_path / "<b>.json", tmp_path / "own.html"
    trace.write_bytes(hostile.trace_bytes())
    sitting = own_sitting(ft.open(trace, cache=False))
    target.write_text(lesson_html([lesson_page(sitting)]), encoding="utf-8")
    browser.open(target.as_uri())
    assert differences(browser, sitting, 0) == []
    names = [name for name in hostile.NAMES.values() if "alert" in name]
    browser.run("lessonPage.open(lessonPage.lessons[0], false)")
    seen = ""
    for _ in sitting.lesson.steps:
        browser.run("lessonPage.take(lessonPage.sitting, lessonPage.sitting.step.right)")
        browser.settle()
        seen += browser.run("return document.body.textContent")
        browser.run("lessonPage.show(lessonPage.sitting, true)")
    assert any(name in seen for name in names)
    assert browser.run("return document.querySelectorAll('img, b, #views script').length") == 0
    assert browser.dialog() is None
    assert browser.console() == []
    assert browser.requests() == [target.as_uri()]
