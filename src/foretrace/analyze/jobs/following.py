"""How far the reading of a job is: files, bytes, and the time that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from foretrace.analyze.jobs.parts import FileAnswer
from foretrace.base import notices
from foretrace.base.budget import clock
from foretrace.base.units import bytes_text, span_text


def followed(
    answers: Iterable[tuple[str, FileAnswer]], sizes: Mapping[str, int]
) -> Iterator[FileAnswer]:
    """The answers as they come, each with the size of its file."""
    begun, read, total = clock(), 0, sum(sizes.values())
    for done, (path, answer) in enumerate(answers, start=1):
        read += sizes[path]
        left = (clock() - begun) * (total - read) / read if read else 0
        amount = f", {bytes_text(read)} of {bytes_text(total)}" if total else ""
        wait = f", {span_text(left)} left" if left >= 1 else ""
        notices.report(f"read {done:,} of {len(sizes):,} files{amount}{wait}")
        yield _sized(answer, sizes[path])
    notices.report()


def _sized(answer: FileAnswer, size: int) -> FileAnswer:
    """With the size of the file: of a member of a zip, only the whole zip knows it."""
    if answer.part is None:
        return answer
    facts = replace(answer.part.facts, file_bytes=size)
    return FileAnswer(replace(answer.part, facts=facts))
