"""How results show themselves in a notebook and when printed: tables that `show` fills.

Results lie below `show` and cannot import it. A result inherits from `Displayed`. Importing
`foretrace.pages.notebook` fills the tables; `foretrace` puts into `LOADERS` what does that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from foretrace.base.files import write_text

DRAWINGS: dict[type, Callable[[Any], str]] = {}  # of a type: HTML
TEXTS: dict[type, Callable[[Any], str]] = {}
VIEWS: dict[str, Callable[..., View]] = {}  # of a name: a view of one trace or several
LOADERS: list[Callable[[], object]] = []  # what imports the drawings when the first is wanted


class View:
    """A page that a notebook shows below the cell; `save` writes it to a file."""

    def __init__(self, title: str, page: str, height: int) -> None:
        self.title, self.page, self.height = title, page, height

    def _repr_html_(self) -> str:
        """The page in a frame that cannot reach the notebook, and needs no widgets."""
        from html import escape

        return (
            f'<iframe title="{escape(self.title, quote=True)}" '
            'sandbox="allow-scripts allow-downloads allow-modals" '
            f'style="width: 100%; height: {self.height}px; border: 1px solid #9aa7b7" '
            f'srcdoc="{escape(self.page, quote=True)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<{self.title}: a notebook shows it; .save('view.html') writes a page>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; it holds all it shows and needs no network."""
        write_text(Path(path), self.page)
        return Path(path)


def view(name: str, *traces: object) -> View:
    """A view of traces, made by `render`."""
    if name not in VIEWS:
        for load in LOADERS:
            load()
    return VIEWS[name](*traces)


class Displayed:
    """A result that a notebook draws once `render` is loaded, and that prints as the screen."""

    __slots__ = ()

    def __str__(self) -> str:
        if type(self) not in TEXTS:
            for load in LOADERS:
                with suppress(ImportError):  # a machine that only captures lacks what texts need
                    load()
        return TEXTS.get(type(self), repr)(self)

    def _repr_html_(self) -> str | None:
        drawing = next((DRAWINGS[kind] for kind in type(self).__mro__ if kind in DRAWINGS), None)
        return drawing(self) if drawing else None


class Viewed(Displayed):
    """A trace, which a notebook also shows as the views of the report."""

    __slots__ = ()

    def plot(self, *others: Self) -> View:
        """The timeline, for a notebook; with other traces below it, and what changed."""
        return view("timeline", self, *others)

    def roofline(self, *others: Self) -> View:
        """Every kernel below the roofs of its card, for a notebook."""
        return view("roofline", self, *others)

    def flame(self, *others: Self) -> View:
        """Time by module and by op as flame graphs, for a notebook."""
        return view("flame", self, *others)
