"""Fixes that a running script can be given without an edit: classes of these modules, by name.

A `Switch` with a `name` declares one; its docstring is the manual. Other packages bring more
through the entry point group `foretrace.applied`, the command by the names of further modules.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

from foretrace.base import plugins
from foretrace.record.tries.session import Switch


@cache
def applied(*further: str) -> dict[str, type[Switch]]:
    """Every fix that can be applied, by name; the modules `further` declare some, too."""
    modules = [*plugins.modules(sys.modules[__name__]), *map(import_module, further)]
    kinds = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    kinds += plugins.entries(type, "foretrace.applied")
    named = [kind for kind in kinds if issubclass(kind, Switch) and kind.name]
    return {kind.name: kind for kind in sorted(named, key=lambda kind: kind.name)}
