"""Show a program over its commits, and where it changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.compare.history import HistoryEntry


@click.command("history", epilog="See: foretrace docs history")
@click.argument("folder", type=click.Path(path_type=Path, readable=False))
@use.option("--add TRACE", "First add this run to the folder.", type=use.PATH)
@use.option("--commit NAME", "Whose run it is: a hash or a tag.")
@use.option("--date TIME", "When that commit was made, as git log --format=%cI says; else now.")
@use.option("--html FILE", "Also write a page.")
@use.flag("--overwrite", "Replace a page of that name.")
@use.flag("--all", "Every commit and every change.", to="every")
@use.in_tables
@use.opens_trace
def command(
    folder: Path,
    add: str | None,
    commit: str | None,
    date: str | None,
    html: str | None,
    overwrite: bool,
    every: bool,
    form: str,
    reading: use.Reading,
) -> int:
    """Show step time, kernels, fusions and memory of each commit, and where they changed.

    \b
    foretrace history runs --add traces/bench.json.gz --commit "$(git rev-parse HEAD)"
    foretrace history runs
    foretrace history runs --html history.html

    FOLDER has one small file for each run, which is never changed. A change of the step time is
    named where noise between runs does not explain it: it needs four runs before it and four after.
    Runs on another device or with another torch are not compared by time.
    """
    from foretrace.compare.history import add_entry, history, page, read_entries
    from foretrace.pages.page import write_page
    from foretrace.pages.page_tables import history_html

    target = use.new_file(html, overwrite=overwrite) if html else None
    if (add is None) != (commit is None) or (date and add is None):
        raise UsageError("--add TRACE and --commit NAME belong together")
    if add is not None:
        add_entry(folder, _entry(add, commit or "", date, reading))
    found = history(*read_entries(folder))
    use.warn_of_left_out(found.left_out)
    if target is not None:
        write_page(target, history_html(found), [])
    use.answer_in_tables(form, found, lambda: page(found, every=every))
    return 1 if reading.strict and found.left_out else 0


def _entry(add: str, commit: str, date: str | None, reading: use.Reading) -> HistoryEntry:
    from datetime import UTC, datetime

    from foretrace.compare.history import entry_of
    from foretrace.look.document import memory_of

    try:  # a wrong date costs no reading
        when = datetime.now(UTC) if date is None else datetime.fromisoformat(date)
        utc = when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise UsageError(f"--date {date!r}: write it as 2026-01-31T12:00:00+00:00") from None
    trace = reading.trace(add)
    use.warn_of_loss(trace)
    memory = memory_of(trace)
    return entry_of(trace, commit, utc, None if memory is None else memory.peak_bytes)
