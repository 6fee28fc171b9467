"""Show what filled the GPU's memory, and what lowers the peak."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.read.door import Opened
    from foretrace.read.snapshot import Snapshot
    from foretrace.trace.allocator.view import MemoryView

# how pickles begin, and files packed with gzip, xz and zstd
_BINARY = (b"\x80", b"(dp", b"}q", b"\x1f\x8b", b"\xfd7zXZ", b"(\xb5/\xfd")


@click.command("memory", epilog="See: foretrace docs memory")
@click.argument("snapshot", type=use.PATH)
@click.argument("other", type=use.PATH, required=False)
@use.in_tables
@use.shown("--top", "How many lines to list.", type=click.IntRange(min=0), default=8)
@use.option("--html FILE", "Also write a page: live bytes over time, stacks.")
@use.flag("--overwrite", "Replace a page of that name.")
@use.opens_trace
def command(
    snapshot: str,
    other: str | None,
    form: str,
    top: int,
    html: str | None,
    overwrite: bool,
    reading: use.Reading,
) -> int:
    """Read a snapshot of torch's allocator: the peak, what holds it, and what would lower it.

    Each fix comes with the peak that it would leave, replayed from the lifetimes of all
    allocations. Nothing in the file is executed. What `record --memory --stacks --modules` left is
    shown by module too.

    A trace with memory events (record --memory) is read the same way: its ops are the lines.

    With OTHER, show what changed from SNAPSHOT to it. With - the text of an OutOfMemoryError is
    read from stdin, and explained.

    \b
    foretrace memory snapshot.pickle
    foretrace memory before.pickle after.pickle
    foretrace memory - < error.txt
    foretrace memory snapshot.pickle --json
    foretrace memory snapshot.pickle --html memory.html
    """
    if other is not None:
        if html:
            raise UsageError("--html draws one snapshot: leave the other one out")
        from foretrace.memory import memory_document
        from foretrace.memory.changes import memory_changes
        from foretrace.memory.lines import changes_page

        sides = [
            memory_document(_held(_opened(path, reading), reading)) for path in (snapshot, other)
        ]
        changed = memory_changes(*sides)
        use.answer_in_tables(form, changed, lambda: changes_page(changed, top=top))
        return 1 if reading.strict and any(side.lost for side in sides) else 0
    if snapshot == "-":
        stdin: Any = sys.stdin.buffer
        if sys.stdin.isatty() or not stdin.peek(6)[:6].startswith(_BINARY):
            from foretrace.memory.lines import oom_page
            from foretrace.memory.oom import LONGEST, out_of_memory_document, read_oom_text

            if sys.stdin.isatty():
                click.echo("paste the error, then press Ctrl-D", err=True)
            text = sys.stdin.buffer.read(4 * LONGEST).decode("utf-8", "replace")
            explained = out_of_memory_document(read_oom_text(text))
            use.answer_in_tables(form, explained, lambda: oom_page(explained))
            return 0
    from foretrace.memory import memory_document
    from foretrace.memory.lines import page

    target = use.new_file(html, overwrite=overwrite) if html else None
    opened = _opened(snapshot, reading)
    held = _held(opened, reading)
    views = _views(opened.path, held, reading)
    found = memory_document(held, views)

    use.answer_in_tables(form, found, lambda: page(found, top=top))
    if target is not None:
        from foretrace.pages.memory_html import memory_html
        from foretrace.pages.page import write_page

        use.say(f"wrote {write_page(target, memory_html(found, views), [opened.path])}")
    return 1 if reading.strict and found.lost else 0


def _views(path: str, held: Snapshot, reading: use.Reading) -> list[MemoryView]:
    """The devices of a snapshot, with the modules of a trace that lies beside it."""
    from foretrace.read.snapshot import trace_beside
    from foretrace.trace.allocator.view import memory_views

    views = memory_views(held)
    if (trace := trace_beside(path)) is not None:
        from foretrace.memory.from_trace import module_names

        opened = reading.trace(str(trace))
        for view in views:
            view.traced = module_names(view, opened)
    return views


def _opened(path: str, reading: use.Reading) -> Opened:
    from foretrace.read.door import SnapshotFile, TraceFile, TraceFolder

    return reading.opened(path, SnapshotFile, TraceFile, TraceFolder)


def _held(found: Opened, reading: use.Reading) -> Snapshot:
    """A snapshot, or the memory events of a trace."""
    from foretrace.read.door import SnapshotFile, TraceFile
    from foretrace.read.snapshot import read_snapshot

    # what is no JSON either is refused as a snapshot
    unknown = isinstance(found, TraceFile) and found.doubt and found.doubt.code != "E_NO_EVENTS"
    if isinstance(found, SnapshotFile) or found.path == "-" or unknown:
        return read_snapshot(found.path, reading.limits)
    from foretrace.memory.from_trace import snapshot_of_trace

    trace = reading.trace(found)
    return snapshot_of_trace(trace, trace.path)
