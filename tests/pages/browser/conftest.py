"""The report in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pages.browser import chromium

pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
SMOKE = "test_opens_from_disk_without_a_word"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One page opens in the default run; `make test-full` opens all, at every width."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.name.startswith(SMOKE):
            item.add_marker(pytest.mark.sweep)


class Browser:
    """A page under test: what it shows, what it said on the console, what it asked of the network."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def wait(self, condition: str) -> None:
        """Until a condition holds in the page; fails with what the console says when it never does."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60).until(
            lambda driver: driver.execute_script(f"return {condition}"), condition
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def settle(self) -> None:
        """Two frames later, whatever was asked for is drawn."""
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )

    def find(self, selector: str) -> Any:
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address the page asked for, itself and data: included."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def dialog(self) -> str | None:
        from selenium.common.exceptions import NoAlertPresentException

        try:
            return str(self.driver.switch_to.alert.text)
        except NoAlertPresentException:
            return None


@pytest.fixture(scope="session")
def programs() -> tuple[str, str]:
    ready = chromium.ready()
    if ready is None:
        pytest.skip(chromium.ABSENT)
    return ready


@pytest.fixture(scope="session")
def browser(
    programs: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    driver = chromium.start(programs, tmp_path_factory.mktemp("profile"))
    yield Browser(driver)
    driver.quit()


@pytest.fixture(autouse=True)
def usual_window(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that makes the window narrow leaves it as it was: all of them share one browser."""
    yield
    if "browser" in request.fixturenames:
        request.getfixturevalue("browser").driver.set_window_size(*chromium.WINDOW)
