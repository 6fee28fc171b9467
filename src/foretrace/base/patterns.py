"""Regular expressions that compile when they are first used.

A command loads the patterns of every module that it may need, and uses few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _Uncompiled:
    """Stands for a pattern; after the first use its methods are those of the compiled one."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled: re.Pattern[Any] = re.compile(self._text, self._flags)
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, compiled on first use. Call its methods: functions of `re` do not take it."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))
