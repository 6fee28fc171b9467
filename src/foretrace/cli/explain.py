"""Explain a rule, a fix, a kernel name, an op or a quantity."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.learn.explained import DecodedName


@click.command("explain", epilog="See: foretrace docs kernel-names")
@click.argument("words", nargs=-1, metavar="[WORD]...", shell_complete=use.complete_quantities)
@use.in_forms
@use.option("--in TRACE", "How this trace launches the kernel.", to="path", type=use.PATH)
@use.option("--gpu CARD", "Relate a kernel name to a card (H200) or a chip (sm_90, gfx942).")
def command(words: tuple[str, ...], form: str, path: str | None, gpu: str | None) -> None:
    """Explain each WORD: a rule or fix with an example, a kernel name part by part, what an op
    costs, what predictions may count, what a JSON document holds.

    Without a word, list all of them by kind. Two kernel names are compared. A kernel name is
    given as a trace prints it, in quotes; - reads names from stdin, one a line. Each part has how
    sure its meaning is: documented, checked against traces, inferred, or unknown. For a rule on a
    trace of your own: look TRACE --explain RULE.

    \b
    foretrace explain sync_stalls
    foretrace explain nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT --gpu H200
    foretrace explain aten::addmm
    foretrace explain cuda_graph --json
    """
    from foretrace.learn.manual import manual, manual_page

    usage = "give a kernel's name as a trace prints it, in quotes, or - for stdin"
    if not all(word.strip(" \t\r\n") for word in words):
        raise UsageError(f"the name is empty: {usage}")
    if "-" in words and len(words) > 1:
        raise UsageError("- reads every name from stdin: give it alone")
    if words == ("-",):
        lines = sys.stdin.buffer.read().decode("utf-8", "replace").split("\n")
        _explain_kernels([line for line in lines if line.strip()], form, path, gpu, listed=True)
        return
    if words and (path or gpu):
        _explain_kernels(words, form, path, gpu)
        return
    found = manual(words)
    if words and not found.entries:
        _explain_kernels(words, form, path, gpu)
        return
    use.answer_in_tables(form, found, lambda: manual_page(found, listed=not words))


def _explain_kernels(
    names: list[str] | tuple[str, ...],
    form: str,
    path: str | None,
    gpu: str | None,
    *,
    listed: bool = False,
) -> None:
    """Kernel names alone; of two, what differs."""
    import json

    from msgspec import UNSET, to_builtins
    from msgspec.structs import replace

    from foretrace.learn.explained import DecodedName, OnCard
    from foretrace.learn.manual import kernel_text
    from foretrace.work import families

    if len(names) > 2 and not listed:
        raise UsageError(f"{len(names)} names: give one, or two to compare, each in quotes")
    arch = _arch(gpu) if gpu else ""
    kernels = [families.decode(name) for name in names]
    answers: list[DecodedName] = [
        DecodedName.of(each, OnCard(arch, families.on_card(each, arch)) if arch else UNSET)
        for each in kernels
    ]
    if path:
        from foretrace.learn.explained import launches
        from foretrace.trace.opening import opened

        trace = opened(path)
        answers = [replace(each, launches=launches(trace, each.name)) for each in answers]
    if len(answers) == 2 and not listed:
        changes = families.changed(*kernels)
        answers = [replace(answers[0], other=answers[1], changed=changes)]
    if form == "json":
        # ASCII: a name may hold what a terminal acts on
        click.echo(json.dumps(to_builtins(answers if listed else answers[0])))
        return
    for answer in answers:
        click.echo(kernel_text(answer))


def _arch(card: str) -> str:
    """`sm90` for `sm_90` or `H200`. Several cards may share the name if they share the chip."""
    from foretrace.base.terminal import plain
    from foretrace.work import devices

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
