"""A folder or zip of traces: a document of `look` for each, notes on the set, what was left out."""

from __future__ import annotations

from foretrace.base import notices
from foretrace.base.budget import Limits
from foretrace.model.opening import refused
from foretrace.model.sets import Member, ranks_of_one_job, set_notes
from foretrace.read.folder import FolderContents, nothing_in
from foretrace.schema.documents.look import SCHEMA
from foretrace.schema.documents.sets import LeftOut, LookSet
from foretrace.schema.ledger import NoteEntry
from foretrace.show.overview.reading import overviews

OTHERS = "run records, and files not named like traces (*.json, *.trace, *.tmp, *.gz, *.zst, *.zip)"


def look_set(path: str, inside: FolderContents, limits: Limits, *, cache: bool) -> LookSet:
    """Look at each trace in a folder or zip. Raises `TraceError` when none can be read."""
    left_out = [refused(each, problem) for each, problem in inside.files if problem]
    paths, looks, members = inside.traces, [], []
    for done, found in enumerate(overviews(paths, limits, cache), start=1):
        notices.report(f"read {done} of {len(paths)}: {paths[done - 1]}")
        if isinstance(found, LeftOut):
            left_out.append(found)
            continue
        looks.append(found.look)
        trace = found.look.trace
        members.append(Member(trace.path, trace.rank, found.world_size, found.base_ns, found.job))
    notices.report()
    left_out.sort(key=lambda each: each.path)
    if not looks:
        raise nothing_in(path, [f"{each.path}: {each.text} [{each.code}]" for each in left_out])
    notes = [NoteEntry.of(note) for note in set_notes(members)]
    if inside.others:
        notes.append(NoteEntry("other_files", "info", inside.others, OTHERS))
    job = [member.path for member in ranks_of_one_job(members)]
    return LookSet(SCHEMA, looks, notes, left_out, job)
