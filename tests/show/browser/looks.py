"""The viewer as people have it on screen: three widths, light and dark; and what they can ask of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from show.browser.conftest import Browser
from show.browser.hands import Hands, Point

CANVAS = ".timeline canvas.tracks"
HEIGHTS = {1440: 900, 1024: 768, 390: 844}
# Of an element: the middle of what can be clicked, after it is brought into the window.
MIDDLE = """
    const found = typeof arguments[0] === 'string' ? document.querySelector(arguments[0]) : arguments[0];
    if (!found) throw new Error(`nothing is ${arguments[0]}`);
    found.scrollIntoView({block: 'center', inline: 'center'});
    const {left, top, width, height} = (found.getClientRects()[0] ?? found.getBoundingClientRect());
    if (!width || !height) throw new Error(`${arguments[0]} is not visible`);
    return [left + width / 2, top + height / 2];
"""
BY_TEXT = """
    const [selector, text] = arguments;
    const named = (each) => `${each.getAttribute('aria-label') ?? ''} ${each.textContent}`.includes(text);
    const seen = (each) => each.getClientRects().length > 0;
    return [...document.querySelectorAll(selector)].find((each) => named(each) && seen(each)) ?? null;
"""


class Look(NamedTuple):
    """A window and its colours."""

    width: int
    dark: bool

    def __str__(self) -> str:
        return f"{self.width}-{'dark' if self.dark else 'light'}"


LOOKS = [Look(width, dark) for width in HEIGHTS for dark in (False, True)]
# What a page does depends on its width and never on its colours, which are looked at in all six.
# The full sweep does everything in all six.
WIDTHS = [Look(1440, False), Look(390, True)]


class Page:
    """A viewer in a window, and the two ways to work with it."""

    def __init__(self, browser: Browser) -> None:
        self.browser, self.hands = browser, Hands(browser.driver)
        self.address, self.look = "", Look(0, False)

    def show(self, path: Path, look: Look) -> None:
        """Open it, or where it is open already, put everything back as it was."""
        address = path.as_uri()
        if (address, look) != (self.address, self.look) or self._left(address):
            self.window(look)
            self.browser.open(address)
            self.address, self.look = address, look
        self.run("foretrace.store.set(arguments[0]); document.activeElement?.blur()", _initial())
        self.run(
            "for (const each of document.querySelectorAll('details[open], dialog[open]')) "
            "each.open = false; "
            "for (const each of document.querySelectorAll('.scroller, .panel .inside, .insights .list')) each.scrollTop = 0; "
            "scrollTo(0, 0)"
        )
        self.settle()

    def _left(self, address: str) -> bool:
        return str(self.browser.driver.current_url).partition("#")[0] != address

    def window(self, look: Look, height: int = 0) -> None:
        """A window to the pixel; Chromium's own is never narrower than 500."""
        size = {"width": look.width, "height": height or HEIGHTS[look.width]}
        metrics = size | {"deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look.dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", {"features": [scheme]})

    def leave(self) -> None:
        """The window and colours of the other tests."""
        self.cdp("Emulation.clearDeviceMetricsOverride", {})
        self.cdp("Emulation.setEmulatedMedia", {"features": []})
        self.address = ""

    def cdp(self, command: str, arguments: dict[str, Any]) -> Any:
        return self.browser.driver.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        self.hands.acted |= not script.startswith("return")  # that one only reads
        return self.browser.run(script, *arguments)

    def answer(self, promise: str, *arguments: Any) -> Any:
        """What a promise of the page holds."""
        script = "const done = arguments[arguments.length - 1]; "
        return self.browser.driver.execute_async_script(
            f"{script}({promise}).then(done, (problem) => done(String(problem)))", *arguments
        )

    def wait(self, condition: str) -> None:
        self.browser.wait(condition)

    def settle(self) -> None:
        """Time to draw, where anything was done."""
        if self.hands.acted:
            self.browser.settle()
        self.hands.acted = False

    def state(self, key: str) -> Any:
        """What the store holds, after what was asked for is drawn."""
        self.settle()
        return self.run(f"return foretrace.store.state.{key}")

    def view(self) -> tuple[float, float]:
        """The visible range in shared time."""
        seen = self.layout()
        return seen["from"], seen["to"]

    def layout(self) -> Any:
        """Where the rows in view lie on the canvas, from above."""
        self.settle()
        seen = self.run("return foretrace.layout()")
        seen["rows"].sort(key=lambda row: row["top"])
        return seen

    def moved(self, before: tuple[float, float]) -> tuple[float, float]:
        """The visible range, once it is no longer this one."""
        self.wait(
            f"foretrace.layout().from !== {before[0]} || foretrace.layout().to !== {before[1]}"
        )
        return self.view()

    def selected(self, other: Any = None) -> Any:
        """What is selected, once something else than `other` is."""
        known = json.dumps(other, separators=(",", ":"))
        self.wait(f"JSON.stringify(foretrace.store.state.selection) !== {known!r}")
        return self.state("selection")

    def text(self, selector: str) -> str:
        return str(
            self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        )

    def found(self, selector: str, text: str) -> Any:
        """The visible element with this text or name."""
        element = self.run(BY_TEXT, selector, text)
        assert element is not None, f"no visible {selector} says {text!r}"
        return element

    def click(self, what: Any) -> None:
        """A click on an element: a selector, or the element."""
        self.hands.click(self.middle(what))
        self.settle()

    def middle(self, what: Any) -> Point:
        x, y = self.run(MIDDLE, what)
        return x, y

    def focus(self, what: Any) -> None:
        """As Tab would reach it: only what Tab reaches takes the focus."""
        took = self.run(
            "const found = typeof arguments[0] === 'string' ? "
            "document.querySelector(arguments[0]) : arguments[0]; found.focus(); "
            "return document.activeElement === found && found.tabIndex >= 0",
            what,
        )
        assert took, f"{what} cannot have the focus"

    def press(self, *keys: str) -> None:
        self.hands.press(*keys)
        self.settle()

    def at(self, time: float, kind: str = "strip", number: int = 0) -> Point:
        """Where a shared time lies on a row of the timeline, in the window."""
        self.run(f"document.querySelector('{CANVAS}').scrollIntoView({{block: 'nearest'}})")
        seen = self.layout()
        row = [row for row in seen["rows"] if row["kind"] == kind][number]
        across = (time - seen["from"]) / (seen["to"] - seen["from"]) * seen["width"]
        return seen["left"] + across, seen["top"] + row["top"] + row["height"] / 2

    def said(self) -> list[str]:
        """The console, without the advice to those who read pixels: tests do, the page does not."""
        return [line for line in self.browser.console() if "willReadFrequently" not in line]

    def sticks_out(self) -> list[str]:
        """What is wider than the window."""
        found = self.run("""
            const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
            if (wide <= 0) return [];
            return [...document.querySelectorAll('main *')].filter((each) =>
                each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
                .map((each) => `${each.tagName}.${each.className}`).slice(0, 8);
        """)
        return list(found)


def _initial() -> dict[str, Any]:
    return {
        "view": None,
        "selection": None,
        "tab": "findings",
        "filter": "",
        "search": "",
        "pinned": [],
        "open": [],
        "marks": [],
        "align": "",
        "basis": "step",
    }
