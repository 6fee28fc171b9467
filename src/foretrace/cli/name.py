"""Explain a kernel name, part by part."""

from __future__ import annotations

import re
import sys

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use


@click.command("name", epilog="See: foretrace docs kernel-names")
@click.argument("names", nargs=-1, required=True, metavar="NAME [OTHER]")
@use.as_json
@use.option("--in TRACE", "How this trace launches it.", to="path", type=use.PATH)
@use.option("--gpu CARD", "Relate it to a card: a name (H200) or a chip (sm_90, gfx942).")
def command(names: tuple[str, ...], as_json: bool, path: str | None, gpu: str | None) -> None:
    """Explain a kernel's name, part by part; of two names, say which fields differ.

    Each part comes with its meaning and how sure that is: documented, checked against traces,
    inferred, or unknown. NAME is a kernel name as a trace prints it, in quotes; - reads names from
    stdin, one a line. --in TRACE adds what no name says: grid, block, warps and registers of its
    launches there.
    """
    import json

    from msgspec import UNSET, to_builtins
    from msgspec.structs import replace

    from foretrace.names import families
    from foretrace.schema.documents.name import DecodedName, OnCard
    from foretrace.show.render import kernel_name

    usage = "give a kernel's name as a trace prints it, in quotes, or - for stdin"
    if not all(name.strip(" \t\r\n") for name in names):
        raise UsageError(f"the name is empty: {usage}")
    if len(names) > 2:
        raise UsageError(f"{len(names)} names: give one, or two to compare, each in quotes")
    if len(names) == 2 and "-" in names:
        raise UsageError("- reads every name from stdin: give it alone")
    arch, stdin = _arch(gpu) if gpu else "", names == ("-",)
    if stdin:
        lines = sys.stdin.buffer.read().decode("utf-8", "replace").split("\n")
        names = tuple(line for line in lines if line.strip())
    kernels = [families.decode(name) for name in names]
    cards = [OnCard(arch, families.on_card(each, arch)) if arch else UNSET for each in kernels]
    documents = list(map(DecodedName.of, kernels, cards))
    if path:
        from foretrace.model.opening import opened
        from foretrace.show.overview.sequences import launches

        trace = opened(path)
        documents = [replace(each, launches=launches(trace, each.name)) for each in documents]
    if len(documents) == 2 and not stdin:
        changes = families.changed(*(families.decode(each.name) for each in documents))
        documents = [replace(documents[0], other=documents[1], changed=changes)]
    if as_json:
        answer = to_builtins(documents if stdin else documents[0])
        click.echo(json.dumps(answer))  # ASCII: a name may hold what a terminal acts on
    else:
        for document in documents:
            click.echo(kernel_name.text(document))


def _arch(card: str) -> str:
    """`sm90` for `sm_90` or `H200`. Several cards may share the name if they share the chip."""
    from foretrace.names import devices
    from foretrace.show.render.terminal import plain

    if re.fullmatch(r"sm_?\d{2,3}[a-z]?|gfx\w{3,5}", card.lower()):
        return card.lower().replace("_", "")
    wanted = _words(card)
    named = [device for device in devices.every() if wanted and wanted <= _words(device.name)]
    fits = {device.arch.replace("_", "") for device in named}
    if len(fits) != 1:
        known = ", ".join(sorted(device.name for device in devices.every()))
        raise UsageError(
            f"--gpu {plain(card)}: names no single GPU; give an architecture (sm_90, gfx942) or "
            f"one of: {known}"
        )
    return fits.pop()


def _words(text: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", text.lower())) - {""}
