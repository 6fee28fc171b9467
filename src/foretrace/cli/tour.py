"""Read: Try everything on the recordings that ship with foretrace."""

from __future__ import annotations

from collections.abc import Callable

import click

from foretrace.cli._options import opens_trace


@click.command("tour", epilog="See: foretrace docs quick-start")
@click.option("--card", default="h200", show_default=True, help="The GPU whose recordings to read.")
@click.option(
    "--no-climb", is_flag=True, help="Run nothing on this machine, even where torch is installed."
)
@click.option(
    "-o", "--out", default="traces/tour.html", show_default=True, help="File of the report."
)
@opens_trace
def command(
    card: str, no_climb: bool, out: str, no_cache: bool, strict: bool, limit: tuple[str, ...]
) -> int:
    """Read the recorded traces, climb the ladder, and write a report. Needs no torch and no GPU.

    It prints one line per recording, then which claims of the articles hold: on this machine where
    torch is installed (two minutes on two cores), and as recorded. The last line is the path of a
    report on the MLP, eager and compiled.
    """
    from foretrace import recordings
    from foretrace.overview.reading import overview_of
    from foretrace.render.tour import next_text, tour_text
    from foretrace.sources.limits import parse_limits

    paths = recordings.traces(card)
    limits = parse_limits(limit)
    looks = {
        name: overview_of(str(path), cache=not no_cache, limits=limits).look
        for name, path in paths.items()
    }
    click.echo(tour_text(looks))
    if not no_climb:
        _part("The climb on this machine", _here)
    _part("The recorded climb", lambda: _recorded(card))
    _part("The report", lambda: _report(card, out, not no_cache))
    click.echo(f"\n{next_text(str(recordings.folder(card)))}")
    return 1 if strict and any(look.ledger.lost_data for look in looks.values()) else 0


def _part(name: str, text: Callable[[], str]) -> None:
    """One part of the tour; a part that cannot run prints one line, and the tour continues."""
    from foretrace.errors import ForetraceError

    try:
        click.echo(f"\n{text()}")
    except (ForetraceError, OSError) as problem:
        click.echo(f"\n{name} is left out: {str(problem).splitlines()[0]}")


def _here() -> str:
    import tempfile
    from pathlib import Path

    from foretrace.cli._options import say
    from foretrace.ladder.climb import climb_here
    from foretrace.render.tour import climb_summary

    with tempfile.TemporaryDirectory(prefix="foretrace-tour-") as folder:
        return climb_summary(climb_here(Path(folder), "auto", (), say), "foretrace ladder")


def _recorded(card: str) -> str:
    from foretrace.ladder.climb import climb_recorded
    from foretrace.render.tour import climb_summary

    return climb_summary(climb_recorded(card), f"foretrace ladder --recorded {card}")


def _report(card: str, out: str, cache: bool) -> str:
    from pathlib import Path

    import msgspec

    from foretrace import opening, recordings
    from foretrace.ladder.climb import climb_recorded
    from foretrace.render.html import write_report

    Path(out).parent.mkdir(parents=True, exist_ok=True)
    paths = recordings.traces(card)
    traces = [opening.open(paths[name], cache=cache) for name in ("mlp_eager", "mlp_compiled")]
    climb = msgspec.to_builtins(climb_recorded(card, ("mlp",)))
    return f"The report on the MLP, eager and compiled: {write_report(out, traces, ladder=climb)}"
