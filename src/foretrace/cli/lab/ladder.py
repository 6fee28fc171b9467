"""Run every rung and check the articles' claims."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use
from foretrace.cli.lab import DEVICES, rung_names


@click.command("ladder", epilog="See: foretrace docs ladder")
@use.option("--recorded CARD", "Climb packaged traces instead (h200): no torch, no GPU.")
@use.option(
    "--only RUNG", "This rung alone; may be repeated.", multiple=True, shell_complete=rung_names
)
@use.option("--device", "Where to climb; the GPU where there is one.", type=DEVICES)
@use.option("--keep DIR", "Keep the traces and run records in this folder.")
@use.flag(
    "--why", "Keep the compiler's records beside the traces, for foretrace why (with --keep)."
)
@use.option("--claim NUMBER", "One claim, on packaged traces: sentence, outcome, evidence.")
@use.flag("--all", "Every claim, its sentence where it does not hold, and what each setup changed.")
@use.flag("--strict", "Exit 1 when a claim of the articles does not hold.")
@use.in_forms
def command(
    recorded: str | None,
    only: tuple[str, ...],
    device: str | None,
    keep: str | None,
    why: bool,
    claim: str | None,
    strict: bool,
    form: str,
    **wanted: bool,
) -> int:
    """Climb every rung of the ladder and mark the claims of the articles.

    \b
    foretrace lab ladder                        on this machine: the GPU, or the CPU at small sizes
    foretrace lab ladder --recorded h200        on the traces inside the package
    foretrace lab ladder --only mlp --keep t    one rung; its traces stay in t/
    foretrace lab ladder --claim B21            one claim on the packaged traces, with its sentence

    A claim holds, does not hold, holds on the A100 (the articles' card; this one differs), is
    imprecise, or is inconclusive here. Texts that comment on the articles are counted apart. With
    --all one that does not hold is shown with its sentence, what was measured, what the articles
    print, and the correction. The article's table follows: what changed with each setup, and what
    stayed the same.
    """
    from contextlib import nullcontext
    from pathlib import Path

    from foretrace.base.files import scratch
    from foretrace.learn.claims import FAILS
    from foretrace.learn.ladder.climb import climb_here, climb_recorded
    from foretrace.learn.ladder.lines import claim_text, climb_markdown, climb_summary, climb_text

    if (recorded or claim) and (keep or device):
        with_trace = "--recorded" if recorded else "--claim"
        raise UsageError(f"--keep and --device need a run on this machine: remove {with_trace}")
    if claim and only:
        raise UsageError("--claim names its programs itself: remove --only")
    if why and not keep:
        raise UsageError("--why keeps records beside the traces: add --keep DIR")
    if claim or recorded:
        document = climb_recorded(recorded or "h200", only, claim)
    else:
        with nullcontext(Path(keep)) if keep else scratch() as folder:
            document = climb_here(folder, device or "auto", only, use.say, why=why)
    text = claim_text if claim else climb_text if wanted["all"] else climb_summary
    use.answer(form, document, text, climb_markdown)
    return 1 if strict and document.outcomes[FAILS] else 0
