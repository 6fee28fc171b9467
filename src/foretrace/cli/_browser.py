"""How a command shows a page: the address holds a token, so no process list may show it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import click

from foretrace.cli._options import say

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>foretrace</title>
<a href="{address}">Open the page</a>
"""


@contextmanager
def in_browser(address: str, *, wanted: bool) -> Iterator[None]:
    """Open the address through a file that only this user can read; it is deleted at the end.

    All users of a machine see the arguments of all processes, the browser's among them.
    """
    import tempfile

    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="foretrace-", ignore_cleanup_errors=True) as folder:
        page = os.path.join(folder, "open.html")
        with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_PAGE.format(address=escape(address)))
        if click.launch(page):
            say("no browser was found: open the address above")
        yield
