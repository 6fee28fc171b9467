"""Print a page of this documentation."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.base.errors import UsageError, nearest

PACKAGED = Path(__file__).parents[1] / "docs"
CHECKOUT = Path(__file__).parents[3] / "docs"


def pages() -> dict[str, Path]:
    """The pages by name: those in the installed package, or those of the checkout."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in pages() if name.startswith(incomplete)]


@click.command("docs")
@click.argument("page", required=False, shell_complete=_complete)
def command(page: str | None) -> None:
    """Print PAGE of the documentation, as Markdown. Without PAGE, list the pages.

    \b
    foretrace docs
    foretrace docs findings
    """
    found = pages()
    if page is None:
        width = max(map(len, found), default=0)
        for name, path in found.items():
            title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").rstrip()
            click.echo(f"{name:<{width}}  {title}")
    elif page in found:
        click.echo(found[page].read_text(encoding="utf-8").rstrip("\n"))
    else:
        hint = nearest(page, found, "foretrace docs lists the pages")
        raise UsageError(f"no page {page!r}: {hint}")
