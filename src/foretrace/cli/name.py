"""Read: Explain a kernel name, part by part."""

from __future__ import annotations

import re
import sys

import click

from foretrace.cli._options import as_json


@click.command("name", epilog="See: foretrace docs kernel-names")
@click.argument("name")
@as_json
@click.option(
    "--gpu",
    metavar="CARD",
    help="Relate the kernel to a card: a name (H200) or a chip (sm_90, gfx942).",
)
def command(name: str, as_json: bool, gpu: str | None) -> int:
    """Explain a kernel's name, part by part.

    Each part says what it means and how sure that is: documented, checked against traces, inferred,
    or unknown. NAME is a kernel name as a trace prints it, in quotes; - reads names from stdin, one
    a line.
    """
    import json

    from foretrace import families
    from foretrace.errors import UsageError
    from foretrace.render import kernel_name

    if not name.strip(" \t\r\n"):
        raise UsageError(
            "the name is empty: give a kernel's name as a trace prints it, in quotes, or - for "
            "stdin"
        )
    arch = _arch(gpu) if gpu else ""
    kernels = [families.decode(text) for text in (_lines() if name == "-" else [name])]
    remarks = [families.on_card(kernel, arch) if arch else "" for kernel in kernels]
    if as_json:
        objects = [
            kernel_name.as_json(kernel) | ({"gpu": {"arch": arch, "text": remark}} if arch else {})
            for kernel, remark in zip(kernels, remarks, strict=True)
        ]
        # ASCII: a name may hold what a terminal acts on
        click.echo(json.dumps(objects if name == "-" else objects[0]))
        return 0
    for kernel, remark in zip(kernels, remarks, strict=True):
        if sys.stdout.isatty():
            kernel_name.show(kernel, remark)
        else:
            click.echo(kernel_name.text(kernel, remark))
    return 0


def _lines() -> list[str]:
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    return [line for line in text.split("\n") if line.strip()]


def _arch(card: str) -> str:
    """`sm90` for `sm_90` or `H200`. A name that several cards share will do, as long as they are
    one chip.
    """
    from foretrace import devices
    from foretrace.errors import UsageError
    from foretrace.render.safe import plain

    if re.fullmatch(r"sm_?\d{2,3}[a-z]?|gfx\w{3,5}", card.lower()):
        return card.lower().replace("_", "")
    asked = _words(card)
    fits = {
        device.arch.replace("_", "")
        for device in devices.every()
        if asked and asked <= _words(device.name)
    }
    if len(fits) != 1:
        known = ", ".join(sorted(device.name for device in devices.every()))
        raise UsageError(
            f"--gpu {plain(card)}: not one card; say a chip (sm_90, gfx942) or one of: {known}"
        )
    return fits.pop()


def _words(text: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", text.lower())) - {""}
