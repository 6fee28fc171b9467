"""One page: a file that needs no network and runs nothing but its own script.

The script is built from the modules in `web/` (`make bundle`), one file per page in `bundle/`; the
page's content security policy names the hashes of exactly this script and this style, so that
nothing a trace contains can ever run. Data from a trace goes into a JSON block in which `<` cannot
occur, and from there into the page as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec

from foretrace.base.errors import UsageError
from foretrace.base.files import write_text


def page(title: str, data: object, *, connect: str = "'none'", main: str = "main") -> str:
    """The whole page. It may fetch from `connect` (CSP): nowhere, or the server it came from."""
    parts = {
        "title": escape(title),
        "policy": escape(policy(connect, main), quote=True),
        "style": style_text(main),
        "script": script_text(main),
        "data": json_block(data),
    }
    # one pass: what is filled in is not filled again
    return re.sub(r"@@(\w+)@@", lambda match: parts[match[1]], read("page.html"))


def write_page(path: str | os.PathLike[str], text: str, traces: Iterable[str]) -> Path:
    """Write a page: all or nothing, and never over one of the traces that it is about."""
    target = Path(path)
    for trace in traces:
        if target.exists() and os.path.exists(trace) and target.samefile(trace):
            raise UsageError(f"{target} is the trace itself: choose another name for the page")
    try:
        write_text(target, text)
    except OSError as problem:
        why = problem.strerror
        raise UsageError(f"{target} cannot be written: {why}; choose another place") from None
    return target


def policy(connect: str, main: str = "main") -> str:
    """The content security policy: nothing from anywhere, but this script and this style."""
    script, style = _hash(script_text(main)), _hash(style_text(main))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def json_block(data: object) -> str:
    """JSON that no HTML parser reads as markup: no `<`, no `&`, no line separators."""
    text = json.dumps(
        data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_builtins
    )
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written to a file


def _builtins(value: object) -> object:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)


def script_text(main: str) -> str:
    """The script of a page."""
    return "\n" + read(f"bundle/{main}.js")


def style_text(main: str) -> str:
    """The style of every page, and that of the views of this one."""
    own = files(__package__).joinpath(f"bundle/{main}.css")
    views = read(f"bundle/{main}.css") if own.is_file() else ""
    return "\n" + read("page.css") + views + (read("lesson.css") if main == "lesson" else "")


@cache
def read(name: str) -> str:
    """A file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
