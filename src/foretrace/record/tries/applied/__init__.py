"""Fixes that a running script can be given without an edit: one file each, found by name.

A file declares `APPLIED`; its docstring is the manual. Other packages bring more through the entry
point group `foretrace.applied`.
"""

from __future__ import annotations

import sys
from functools import cache

from foretrace.base import plugins
from foretrace.record.tries.session import Applied


@cache
def applied() -> dict[str, Applied]:
    """Every fix that can be applied, by name."""
    found = plugins.declared(sys.modules[__name__], "APPLIED", Applied, "foretrace.applied")
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
