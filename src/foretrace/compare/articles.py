"""What the articles print of their A100, where the traces are their programs."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from foretrace.trace.trace import Trace


def published(*names: str) -> str:
    """What `a100.toml` has under these names; empty for no name."""
    entries = [_read("a100")[name] for name in names if name]
    said = "; ".join(entry["text"] for entry in entries)
    return f"{said} ({entries[0]['source']})" if entries else ""


def published_of(*traces: Trace) -> str:
    """What the articles print of these programs; empty where one of them is not theirs."""
    found = {_program(trace) for trace in traces}
    shown = _read("articles")["shown"] if len(found) > 1 else []
    return next((published(*each["a100"]) for each in shown if found <= {*each["of"]}), "")


def _program(trace: Trace) -> str:
    """The program of the articles that a trace holds; empty for any other."""
    regions = trace.spans.region_groups().keys()
    for name, told in _read("articles")["program"].items():
        if regions & {*told["regions"]}:
            from foretrace.check import check  # few traces need it

            verdicts = check(trace, told["holds"])
            if all(each.verdict == "hit" for each in verdicts):
                return str(name)
    return ""


@cache
def _read(name: str) -> dict[str, Any]:
    place = files(__package__)
    return tomllib.loads(place.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
