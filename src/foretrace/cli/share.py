"""Publish traces and reports with private data removed."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use


@click.command("share", epilog="See: foretrace docs share")
@click.argument("path", type=use.PATH)
@use.option("--to URL", "hf://buckets/USER/NAME, s3://…, gs://…, or a folder.", to="url")
@use.option("-b --bucket NAME", "A bucket of the Hugging Face Hub: NAME, or USER/NAME.")
@use.option("--keep WORDS", "Keep any of names,stacks,paths,inputs,hosts.", default="")
@use.as_json
@use.opens_trace
def command(
    path: str, url: str | None, bucket: str | None, keep: str, as_json: bool, reading: use.Reading
) -> int:
    """Publish the traces or the memory snapshot in PATH, with reports and an index page.

    It publishes a copy that holds listed fields only: host names, user names, paths, stacks and
    the values of arguments stay on this machine. It never changes or deletes a file that is
    already there.

    \b
    foretrace share traces --to hf://buckets/me/traces
    foretrace share traces -b traces
    """
    import shlex

    from foretrace.schema.documents import encode
    from foretrace.schema.documents.share import ShareDocument
    from foretrace.show.render.terminal import plain
    from foretrace.show.share import publish
    from foretrace.show.share.stores import store_for

    if bool(url) == bool(bucket):
        raise UsageError("no destination: pass --to URL or -b BUCKET")
    wanted = publish.parse_keep(keep)
    store = store_for(url or f"hf://buckets/{bucket}")
    shared = publish.share(path, store, wanted, reading.limits, _progress, cache=reading.cache)
    compiled = [publish.OF_COMPILER] if any(each.why for each in shared) else []
    snapshots = [publish.OF_SNAPSHOT] if any(not each.report for each in shared) else []
    kept = [publish.KEEP[name] for name in sorted(wanted)]
    remains = [*publish.REMAINS, *compiled, *snapshots, *kept]
    if as_json:
        place, index, unknown = store.place(""), publish.INDEX, publish.UNKNOWN
        click.echo(encode(ShareDocument(1, place, index, shared, remains, unknown)))
    else:
        for each in shared:
            click.echo(f"{each.trace}{' (was there)' if each.was_there else ''}")
            opener = "memory" if each.trace.endswith(".pickle") else "perfetto"
            opens = f"foretrace {opener} {shlex.quote(store.place(each.trace))}"
            click.echo(f"  {each.perfetto or opens}")
        regions = sorted({plain(name) for each in shared for name in each.regions})
        named = [f"names of regions: {', '.join(regions)}"] if regions else []
        click.echo(f"index: {store.place(publish.INDEX)}", err=True)
        _say("Removed:", publish.removed_text(each.removed for each in shared))
        _say("What remains in what was shared:", [*remains, *named, publish.UNKNOWN])
    return 1 if reading.strict and any(each.lost_data for each in shared) else 0


def _progress(done: int, total: int, what: str) -> None:
    import sys

    if sys.stderr.isatty():
        bar = f"{'#' * (30 * done // total):30}"
        line = f"\r\x1b[K[{bar}] {done}/{total} {ascii(what)[1:-1]}"
        click.echo(line, err=True, nl=done == total)


def _say(heading: str, lines: list[str]) -> None:
    import textwrap

    from foretrace.show.render.terminal import WIDTH

    fill = textwrap.TextWrapper(WIDTH, initial_indent="  - ", subsequent_indent="    ").fill
    if lines:
        click.echo("\n".join([heading, *map(fill, lines)]), err=True)
