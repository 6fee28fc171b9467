"""List the recordings that ship with foretrace."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

OTHER_ORDER = "H12"  # the claim about the recordings of another order of evaluation


@click.command("recordings", epilog="See: foretrace docs quick-start")
@click.argument("word", required=False)
@use.shown("--card", "The GPU whose recordings to list.", default="h200")
@use.opens_trace
def command(word: str | None, card: str, reading: use.Reading) -> int:
    """List the recorded traces by their short names, with what one step of each holds.

    \b
    foretrace recordings
    foretrace recordings attention

    Every command that opens a trace takes a short name: foretrace look mlp_eager. With WORD, only
    the recordings whose name contains it are listed, and those of the ladder are as well.
    """
    from foretrace.learn.claims import find
    from foretrace.learn.ladder import rungs
    from foretrace.read import recordings
    from foretrace.show.overview.reading import overview_of
    from foretrace.show.render.set_page import more_text, recordings_text

    listed = recordings.traces(card) | recordings.decoding(card) | recordings.explained(card)
    every = listed | recordings.ladder(card)
    chosen = [name for name in every if word in name] if word else list(listed)
    if not chosen:
        raise UsageError(f"no recording has {word!r} in its name: foretrace recordings lists them")
    looks = {
        name: overview_of(str(every[name]), cache=reading.cache, limits=reading.limits)
        for name in chosen
    }
    click.echo(recordings_text(looks))
    programs = {each.on.trace: each.on for each in find(OTHER_ORDER).predictions if each.on.setup}
    others = [name for name in chosen if name in programs]
    if others:
        why = f"another order than the articles' (lab ladder --claim {OTHER_ORDER})"
        code = min((programs[name].code for name in others), key=len)
        click.echo(f"  {' and '.join(others)}: {code}, {why}")
    if logged := [name for name in chosen if name in recordings.explained(card)]:
        click.echo(f"  with the compiler's logs (foretrace why NAME): {', '.join(logged)}")
    if not word:
        names = recordings.ladder(card)
        counts = {each.name: sum(name.startswith(each.name) for name in names) for each in rungs()}
        click.echo(more_text(counts))
        short = " and ".join(recordings.SHORT)
        tried = ", ".join(recordings.tries())
        held = ", ".join(recordings.snapshots(card))
        click.echo(
            f"  {short} are the model of the ladder; {tried} is a result of foretrace try; "
            f"for foretrace memory: {held}"
        )
    lost = any(each.look.ledger.lost_data for each in looks.values())
    return 1 if reading.strict and lost else 0
