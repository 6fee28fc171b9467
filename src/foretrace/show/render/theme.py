"""The one theme of the terminal: titles are bold, and a verdict has the colour of what it means.

Nothing depends on colour: every verdict is a word. The colours are the terminal's own, which its
user has chosen to be readable.
"""

from __future__ import annotations

NORMAL, BOLD = "\x1b[0m", "\x1b[1m"
_GREEN, _RED, _YELLOW, _CYAN = ("\x1b[1;32m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m")
_WORDS = {
    _GREEN: "GPU-BOUND FASTER SAME HOLDS YES hit",
    _RED: "INCOMPLETE SLOWER ERROR MISS",
    _YELLOW: "HOST-BOUND SYNC-BOUND COPY-BOUND COMMS-BOUND MIXED UNKNOWN INCONCLUSIVE NO unknown",
    _CYAN: "DO-FIRST THEN COMPILE",
}
COLOURS = {word: colour for colour, words in _WORDS.items() for word in words.split()}


def painted(word: str) -> str:
    """A title or a label, for a terminal that shows colour."""
    return f"{COLOURS.get(word.replace(' ', '-'), BOLD)}{word}{NORMAL}"
