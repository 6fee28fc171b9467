"""Read: Try everything on the recordings that ship with foretrace."""

from __future__ import annotations

from collections.abc import Callable

import click

from foretrace.cli._options import Reading, flag, opens_trace, say, shown


@click.command("tour", epilog="See: foretrace docs quick-start")
@shown("--card", default="h200", help="The GPU whose recordings to read.")
@flag("--no-climb", "Run nothing on this machine, even where torch is installed.")
@shown("-o", "--out", default="traces/tour.html", help="File of the report.")
@opens_trace
def command(card: str, no_climb: bool, out: str, reading: Reading) -> int:
    """Read the recorded traces, climb the ladder, and write a report. Needs no torch and no GPU.

    It prints one line per recording, then how many claims of the articles hold: on this machine
    where torch is installed (two minutes on two cores), and as recorded. It also writes a report on
    the MLP, eager and compiled.
    """
    from foretrace import recordings
    from foretrace.ladder.climb import climb_recorded
    from foretrace.overview.reading import overview_of
    from foretrace.render.tour import climb_line, next_text, tour_text

    paths = recordings.traces(card)
    looks = {
        name: overview_of(str(path), cache=reading.cache, limits=reading.limits).look
        for name, path in paths.items()
    }
    click.echo(f"{tour_text(looks)}\n")
    recorded = f"foretrace ladder --recorded {card}"
    if not no_climb:
        _part("The climb on this machine", _here)
    _part("The recorded climb", lambda: climb_line(climb_recorded(card), recorded))
    _part("The report", lambda: _report(card, out, reading))
    click.echo(f"\n{next_text(str(recordings.folder(card)))}")
    return 1 if reading.strict and any(look.ledger.lost_data for look in looks.values()) else 0


def _part(name: str, text: Callable[[], str]) -> None:
    """One part of the tour; a part that cannot run prints one line, and the tour continues."""
    from foretrace.errors import ForetraceError

    try:
        click.echo(text())
    except (ForetraceError, OSError) as problem:
        click.echo(f"{name} is left out: {str(problem).splitlines()[0]}")


def _here() -> str:
    from foretrace.files import scratch
    from foretrace.ladder.climb import climb_here
    from foretrace.render.tour import climb_line
    from foretrace.sources.budget import apart

    with apart(), scratch() as folder:
        return climb_line(climb_here(folder, "auto", (), say), "foretrace ladder")


def _report(card: str, out: str, reading: Reading) -> str:
    from pathlib import Path

    import msgspec

    from foretrace import recordings
    from foretrace.ladder.climb import climb_recorded
    from foretrace.render.html import write_report

    Path(out).parent.mkdir(parents=True, exist_ok=True)
    paths = recordings.traces(card)
    traces = [reading.trace(str(paths[name])) for name in ("mlp_eager", "mlp_compiled")]
    climb = msgspec.to_builtins(climb_recorded(card, ("mlp",)))
    return f"The report on the MLP, eager and compiled: {write_report(out, traces, ladder=climb)}"
