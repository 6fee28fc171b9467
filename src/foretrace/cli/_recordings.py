"""`look --list`: the recordings that ship with foretrace, with what one step of each holds."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

CARD = "h200"
OTHER_ORDER = "H12"  # the claim about the recordings of another order of evaluation


def list_recordings(word: str, reading: use.Reading) -> int:
    """Print them by their short names; those of the ladder only where their name has `word`."""
    from foretrace.learn.claims import find
    from foretrace.learn.ladder import rungs
    from foretrace.look.reading import overview_of
    from foretrace.look.set_lines import more_text, recordings_text
    from foretrace.read import recordings

    listed = recordings.traces(CARD) | recordings.decoding(CARD) | recordings.explained(CARD)
    every = listed | recordings.ladder(CARD)
    chosen = [name for name in every if word in name] if word else list(listed)
    if not chosen:
        raise UsageError(f"no recording has {word!r} in its name: foretrace look --list lists them")
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
    if logged := [name for name in chosen if name in recordings.explained(CARD)]:
        click.echo(f"  with the compiler's logs (foretrace why NAME): {', '.join(logged)}")
    if not word:
        names = recordings.ladder(CARD)
        counts = {each.name: sum(name.startswith(each.name) for name in names) for each in rungs()}
        click.echo(more_text(counts))
        short = " and ".join(recordings.SHORT)
        tried = ", ".join(recordings.tries())
        held = ", ".join(recordings.snapshots(CARD))
        click.echo(
            f"  {short} are the model of the ladder; {tried} is a result of foretrace try; "
            f"for foretrace memory: {held}"
        )
    lost = any(each.look.ledger.lost_data for each in looks.values())
    return 1 if reading.strict and lost else 0
