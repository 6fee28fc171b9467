"""Print the JSON Schema of a --json document."""

from __future__ import annotations

import click


@click.command("schema", epilog="See: foretrace docs python")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema of the document NAME, which a command prints with --json.

    Without NAME, list the documents.
    """
    import json

    from foretrace.base import plugins
    from foretrace.base.errors import UsageError, nearest
    from foretrace.schema import documents

    modules = {
        module.__name__.rpartition(".")[2]: module
        for module in plugins.modules(documents)
        if hasattr(module, "DOCUMENT")
    }
    if name is None:
        for each, module in modules.items():
            click.echo(f"{each:<12} {(module.__doc__ or '').splitlines()[0]}")
    elif name in modules:
        click.echo(json.dumps(documents.json_schema(modules[name].DOCUMENT), indent=2))
    else:
        hint = nearest(name, modules, f"choose from {', '.join(modules)}")
        raise UsageError(f"no document named {name!r}: {hint}")
