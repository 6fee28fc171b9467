"""The overview of one trace or of a folder of traces: data and sentences, nothing drawn.

`document` makes the answer of `foretrace look --json`, `sequences` lists what each region launches,
`sentences` is the only author of the summary, `sets` and `ranks` look at several traces together,
and `reading` takes overviews from the cache or from processes of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.overview.page import Overview
from foretrace.schema.documents.look import Look

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def look(trace: Trace) -> Look:
    """The document of `foretrace look --json`: typed, as in `look(trace).totals.kernels`."""
    return summarize(trace).look


def summarize(trace: Trace) -> Overview:
    """The document, what each region launches, and the summary in sentences."""
    from foretrace.overview.document import document
    from foretrace.overview.sentences import sentences
    from foretrace.overview.sequences import sequences

    found, launched = document(trace), sequences(trace)
    found.sentences = sentences(found, launched)
    world, base = trace.about.world_size, trace.tables.base_ns
    return Overview(found, found.sentences, launched, world, base)
