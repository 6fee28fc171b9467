"""Share: Publish traces and reports with private data removed."""

from __future__ import annotations

import click

from foretrace.cli._options import PATH, as_json, opens_trace


@click.command("share", epilog="See: foretrace docs share")
@click.argument("path", type=PATH)
@click.option(
    "--to", "url", metavar="URL", help="hf://buckets/USER/NAME, s3://…, gs://…, or a folder."
)
@click.option(
    "-b", "--bucket", metavar="NAME", help="A bucket of the Hugging Face Hub: NAME, or USER/NAME."
)
@click.option(
    "--keep",
    default="",
    metavar="WORDS",
    help="Keep more: stacks, paths, inputs, hosts; several with commas.",
)
@as_json
@opens_trace
def command(
    path: str,
    url: str | None,
    bucket: str | None,
    keep: str,
    as_json: bool,
    no_cache: bool,
    strict: bool,
    limit: tuple[str, ...],
) -> int:
    """Put the traces in PATH where others can see them, with a report for each and an index page.

    What is shared is a copy made from a list of what may be in it: host names, user names, paths,
    stacks and the values of arguments stay here. What is already there is left as it is, and
    nothing is ever deleted.

    \b
    foretrace share traces --to hf://buckets/me/traces
    foretrace share traces -b traces
    """
    import json
    import shlex
    import sys
    import textwrap

    from foretrace.errors import UsageError
    from foretrace.render.safe import plain
    from foretrace.render.section import WIDTH
    from foretrace.share.publish import INDEX, share
    from foretrace.share.redact import KEEP, REMAINS, parse_keep
    from foretrace.share.stores import store_for
    from foretrace.sources.limits import parse_limits

    if (url is None) == (bucket is None):
        raise UsageError("say where to: --to URL, or -b BUCKET")
    wanted = parse_keep(keep)
    store = store_for(url or f"hf://buckets/{bucket}")

    def progress(done: int, every: int, what: str) -> None:
        if sys.stderr.isatty():
            bar = "#" * (30 * done // every)
            click.echo(
                f"\r\x1b[K[{bar:30}] {done}/{every} {ascii(what)[1:-1]}", err=True, nl=done == every
            )

    remains = [*REMAINS, *(KEEP[name] for name in sorted(wanted))]
    shared = share(path, store, wanted, parse_limits(limit), progress, cache=not no_cache)
    failed = 1 if strict and any(each.lost_data for each in shared) else 0
    if as_json:
        rows = [
            {
                "source": each.source,
                "trace": each.trace,
                "report": each.report,
                "perfetto": each.perfetto,
                "regions": each.regions,
                "was_there": each.was_there,
            }
            for each in shared
        ]
        click.echo(
            json.dumps(
                {
                    "schema": 1,
                    "to": store.place(""),
                    "index": INDEX,
                    "shared": rows,
                    "remains": remains,
                }
            )
        )
        return failed
    for each in shared:
        click.echo(f"{each.trace}{' (was there)' if each.was_there else ''}")
        click.echo(
            f"  {each.perfetto or f'foretrace perfetto {shlex.quote(store.place(each.trace))}'}"
        )
    click.echo(f"index: {store.place(INDEX)}\nWhat remains in what was shared:", err=True)
    regions = sorted({name for each in shared for name in each.regions})
    for line in [
        *remains,
        *([f"names of regions: {', '.join(map(plain, regions))}"] if regions else []),
    ]:
        click.echo(
            textwrap.fill(line, WIDTH, initial_indent="  - ", subsequent_indent="    "), err=True
        )
    return failed
