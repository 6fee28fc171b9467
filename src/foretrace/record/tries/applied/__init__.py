"""Fixes that a running script can be given without an edit: one file each, found by name.

A file declares `APPLIED`; its docstring is the manual. Other packages bring more through the entry
point group `foretrace.applied`, the command by the names of modules that declare one.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

from foretrace.base import plugins
from foretrace.record.tries.session import Applied


@cache
def applied(*further: str) -> dict[str, Applied]:
    """Every fix that can be applied, by name; the modules `further` declare one each."""
    found = plugins.declared(sys.modules[__name__], "APPLIED", Applied, "foretrace.applied")
    found += [import_module(name).APPLIED for name in further]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
