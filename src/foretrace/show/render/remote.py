"""What a run elsewhere sends and does, for a terminal: the page of `remote --dry-run`."""

from __future__ import annotations

import json

from foretrace.base.units import bytes_text, plural
from foretrace.schema.documents.remote import RemoteDocument, SentRequest
from foretrace.show.render.section import Section, drawn


def plan_text(document: RemoteDocument, *, bold: bool = False) -> str:
    """Everything that leaves this machine, in the order in which it does."""
    sections = [_files(document)]
    if document.request:
        sections.append(_request(document.request, document.usd_per_hour))
        steps = "the job runs, on its own machine"
    else:
        steps = "the same by hand; foretrace runs the first two and unpacks the third itself"
    sections.append(Section(f"Commands: {steps}", code="\n".join(document.commands)))
    if document.notes:
        sections.append(Section("Notes", bullets=[(note, "") for note in document.notes]))
    return drawn(sections, bold=bold)


def _files(document: RemoteDocument) -> Section:
    total = bytes_text(sum(file.bytes for file in document.files))
    return Section(
        f"Sent: {plural(len(document.files), 'file')}, {total}",
        head=("file", "bytes"),
        labelled=[("to", document.to)],
        rows=[(file.name, bytes_text(file.bytes)) for file in document.files],
    )


def _request(request: SentRequest, price: float | None) -> Section:
    cost = "unknown: the Hub did not say it" if price is None else f"{price:.2f} USD per hour"
    return Section(
        "Request: starts the job",
        labelled=[("send", f"{request.method} {request.address}"), ("price", cost)],
        code=json.dumps({**request.body, "command": ["sh", "-c", "the lines below"]}, indent=2),
    )
