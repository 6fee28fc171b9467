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


@click.command("docs")
@click.argument(
    "page",
    required=False,
    shell_complete=lambda _ctx, _param, begun: [name for name in pages() if name.startswith(begun)],
)
@click.argument("document", required=False)
def command(page: str | None, document: str | None) -> None:
    """Print PAGE of the documentation, as Markdown. Without PAGE, list the pages.

    The page `schema` is made of the code: the JSON Schema of a document that a command prints with
    --json, or without a name the list of documents.

    \b
    foretrace docs
    foretrace docs findings
    foretrace docs schema
    foretrace docs schema look
    """
    if page == "schema":
        _print_schema(document)
        return
    if document is not None:
        raise UsageError(f"docs {page} takes no second word: only docs schema NAME does")
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


def _print_schema(name: str | None) -> None:
    import json

    import msgspec

    from foretrace.learn import documents

    every = documents.every()
    if name is None:
        for each, (_, text) in every.items():
            click.echo(f"{each:<12} {text}")
    elif name in every:
        click.echo(json.dumps(msgspec.json.schema(every[name][0]), indent=2))
    else:
        hint = nearest(name, every, f"choose from {', '.join(every)}")
        raise UsageError(f"no document named {name!r}: {hint}")
