"""A mouse and a keyboard: events that Chromium takes for a person's, and that cost milliseconds.

They are hit-tested and trusted, so a control that lies under another one, or has no focus, fails as
it does for a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ALT, CTRL, SHIFT = 1, 2, 8
# key: code, number, text
KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    " ": ("Space", 32, " "),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
}

Point = tuple[float, float]


class Hands:
    """What a person does with a page; points are CSS pixels of the window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.held = 0
        self.acted = False  # since a page was last given time to draw

    @contextmanager
    def holding(self, modifier: int) -> Iterator[None]:
        """With Shift, Ctrl or Alt held down."""
        self.held = modifier
        try:
            yield
        finally:
            self.held = 0

    def press(self, *keys: str) -> None:
        """One key after the other: letters, or names as in `KEYS`."""
        for key in keys:
            code, number, text = KEYS.get(key, (f"Key{key.upper()}", ord(key.upper()[0]), key))
            common = {
                "key": key,
                "code": code,
                "windowsVirtualKeyCode": number,
                "modifiers": self.held,
            }
            down = {"type": "keyDown" if text else "rawKeyDown", "text": text}
            self._send("Key", common | down)
            self._send("Key", common | {"type": "keyUp"})

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.acted = True
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def move(self, point: Point, buttons: int = 0) -> None:
        self._mouse("mouseMoved", point, buttons=buttons)

    def click(self, point: Point) -> None:
        self.move(point)
        self._mouse("mousePressed", point, button="left", buttons=1, clickCount=1)
        self._mouse("mouseReleased", point, button="left", clickCount=1)

    def drag(self, start: Point, end: Point) -> None:
        """Press at one point, move in three stages, release at the other."""
        self.move(start)
        self._mouse("mousePressed", start, button="left", buttons=1, clickCount=1)
        for part in (0.3, 0.7, 1):
            between = tuple(a + (b - a) * part for a, b in zip(start, end, strict=True))
            self._mouse("mouseMoved", between, button="left", buttons=1)
        self._mouse("mouseReleased", end, button="left", clickCount=1)

    def swipe(self, *fingers: tuple[Point, Point]) -> None:
        """Each finger from a point to another, in ten stages."""
        self.acted = True
        stages = [
            [
                {
                    "x": a[0] + (b[0] - a[0]) * at / 10,
                    "y": a[1] + (b[1] - a[1]) * at / 10,
                    "id": one,
                }
                for one, (a, b) in enumerate(fingers)
            ]
            for at in range(11)
        ]
        kinds = ["touchStart", *["touchMove"] * 10, "touchEnd"]
        for kind, points in zip(kinds, [*stages, []], strict=True):
            self.driver.execute_cdp_cmd(
                "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
            )

    def wheel(self, point: Point, down: float) -> None:
        """Turn the wheel at a point; a move first, for what scrolled last takes the next turn too."""
        self.move(point)
        self._mouse("mouseWheel", point, deltaX=0, deltaY=down)

    def _mouse(self, kind: str, point: Any, **more: Any) -> None:
        place = {"type": kind, "x": point[0], "y": point[1], "modifiers": self.held}
        self._send("Mouse", place | more)

    def _send(self, device: str, event: dict[str, Any]) -> None:
        self.acted = True
        self.driver.execute_cdp_cmd(f"Input.dispatch{device}Event", event)
