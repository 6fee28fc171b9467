"""How results show themselves in a notebook: a registry that `render` fills.

Results lie below `render` and cannot import it. A result inherits from `Displayed`; `render`
registers the function that draws it. Importing `foretrace.render.html.notebook` registers all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Drawing = TypeVar("Drawing", bound=Callable[[Any], str])
_DRAWINGS: dict[type, Callable[[Any], str]] = {}


def draws(kind: type) -> Callable[[Drawing], Drawing]:
    """Register the decorated function as the drawing of `kind`."""

    def register(drawing: Drawing) -> Drawing:
        _DRAWINGS[kind] = drawing
        return drawing

    return register


class Displayed:
    """A result that a notebook draws once `render` is loaded, and prints as text before."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        drawing = next((_DRAWINGS[kind] for kind in type(self).__mro__ if kind in _DRAWINGS), None)
        return drawing(self) if drawing else None
