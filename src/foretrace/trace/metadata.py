"""What the header of a trace says about where it was recorded: GPU, architecture, rank.

Traces are ranks of one job only if their headers say the same about it. Ranks may carry different
time bases (a quarter of a year apart, when one process started just after midnight of a quarter) or
claim the same rank; a rank may be missing. `open_all` puts such notes into the ledger of every
trace of the set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import INT64, plural, whole
from foretrace.read.ledger import LedgerBuilder, Note
from foretrace.work import devices
from foretrace.work.devices import Device

_RANK_IN_NAME = regex(
    r"rank[_-]?(\d{1,9})|[_-]TP-?(\d{1,9})|profile_(\d{1,9})\.json|ranks?_(\d{1,9})", re.IGNORECASE
)
_NO_COUNTERS = regex(r"Unrecognized config line: CUPTI_PROFILER_METRICS|as 0 ranges were found")
_COORDINATOR = regex(r"\.async_llm\.|coordinator", re.IGNORECASE)


class About(Struct, frozen=True):
    """`device` is the first GPU's name, `arch` its generation as `sm90` or `gfx942`."""

    device: str | None
    arch: str | None
    sms: int | None
    memory_bytes: int | None
    devices: tuple[str, ...]
    rank: int | None
    world_size: int | None
    options: tuple[str, ...]
    job: str = ""  # the same text in all ranks of a job; empty where nothing is stated


class TraceEntry(Struct):
    """Where a trace comes from, and its size."""

    path: str
    source: str
    device: str | None
    arch: str | None
    rank: int | None
    events: int
    steps: int
    regions: int


def about(header: dict[str, Any], path: str, ledger: LedgerBuilder) -> About:
    """Read a header; a rank that it should name and does not is noted."""
    listed = header.get("deviceProperties")
    entries = listed if isinstance(listed, list) else []
    found = [entry for entry in entries if isinstance(entry, dict)]
    names = tuple(str(entry.get("name") or "") for entry in found)
    first = found[0] if found else {}
    rank, world = _rank(header, path, ledger)
    options = tuple(
        name
        for name in ("record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops")
        if header.get(name) in (1, "1", True)
    )
    # torch leaves CUPTI attached, and says so, where it fears a crash of CUDA graphs
    ledger.note("cupti_attached", header.get("DISABLE_CUPTI_LAZY_REINIT") in (1, "1", True))
    warnings = header.get("WARNING")  # of Kineto's log
    lines = warnings if isinstance(warnings, list) else []
    empty = any(isinstance(line, str) and _NO_COUNTERS.search(line) for line in lines)
    ledger.note("counters_empty", empty)
    return About(
        names[0] or None if names else None,
        _arch(first, amd="hip_runtime_version" in header),
        _int(first.get("numSms")),
        _int(first.get("totalGlobalMem")),
        names,
        rank,
        world,
        options,
        _job(header.get("distributedInfo")),
    )


def device_of(about: About) -> Device | None:
    """The table entry of the GPU that a trace was recorded on, or None."""
    if about.device is None and about.sms is None:
        return None
    return devices.find(about.device or "", sms=about.sms, memory_bytes=about.memory_bytes)


def _arch(device: dict[str, Any], *, amd: bool) -> str | None:
    """AMD cards without a name are told by the runtime's version or the width of a wavefront."""
    major, minor = (_int(device.get(key)) for key in ("computeMajor", "computeMinor"))
    name = str(device.get("name", ""))
    if major is None or minor is None:
        return None
    amd = amd or "AMD" in name or "Instinct" in name or device.get("warpSize") == 64
    return f"gfx{major}{minor:x}" if amd else f"sm{major}{minor}"


def _rank(
    header: dict[str, Any], path: str, ledger: LedgerBuilder
) -> tuple[int | None, int | None]:
    """distributedInfo first, the file name second."""
    info = header.get("distributedInfo")
    if not isinstance(info, dict):
        return rank_in_name(path), None
    rank, world = _int(info.get("rank")), _int(info.get("world_size"))
    ledger.note("rank_unknown", rank is None)
    return rank_in_name(path) if rank is None else rank, world


def _job(info: Any) -> str:
    """What every rank of a job states: the size and the libraries of its default group."""
    if not isinstance(info, dict):
        return ""
    groups = info.get("pg_config")
    first = groups[0] if isinstance(groups, list) and groups else {}
    size = first.get("pg_size") if isinstance(first, dict) else None
    stated = (info.get("world_size"), info.get("backend"), info.get("nccl_version"), size)
    return " ".join(map(str, stated))


def rank_in_name(path: str) -> int | None:
    """The rank that the name of a file states."""
    match = _RANK_IN_NAME.search(path.rsplit("/", 1)[-1])
    return int(next(group for group in match.groups() if group)) if match else None


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return whole(value)
    return value if isinstance(value, int) and value in INT64 else None


class Member(Struct, frozen=True):
    """The few facts of one trace that the set needs: many traces need not be open at once."""

    path: str
    rank: int | None
    world_size: int | None
    base_ns: int | None
    job: str = ""


def ranks_of_one_job(members: Sequence[Member]) -> list[Member]:
    """The members that are ranks of one job, that of most; empty when the traces are separate.

    Traces without a header of ranks count by the ranks in their names, unless others have one. A
    serving engine's coordinator is no rank, and a job of one process has no other ranks.
    """
    known = (each for each in members if each.rank is not None)
    named = [each for each in known if not _COORDINATOR.search(each.path)]
    ranks = [each for each in named if each.world_size is not None] or named
    jobs = Counter(each.job for each in ranks if each.world_size != 1)
    main = max(jobs, key=lambda job: (jobs[job], job), default="")
    return [each for each in ranks if each.job == main] if jobs[main] > 1 else []


def set_notes(members: Sequence[Member]) -> tuple[Note, ...]:
    """What is odd about the job that the set holds; nothing about separate traces."""
    ranks = ranks_of_one_job(members)
    if not ranks:
        return ()
    notes = LedgerBuilder()
    bases = {member.base_ns for member in ranks}
    text = f"{len(bases)} time bases in {len(ranks)} traces: aligned by baseTimeNanoseconds + ts"
    notes.note("base_mismatch", len(bases) - 1, text)
    claimed = Counter(member.rank for member in ranks if member.rank is not None)
    twice = sorted(rank for rank, count in claimed.items() if count > 1)
    text = f"several traces have the same rank: {', '.join(f'rank {rank}' for rank in twice)}"
    notes.note("rank_duplicate", len(twice), text)
    world = max(member.world_size or 0 for member in ranks)
    outside = sorted(rank for rank in claimed if not 0 <= rank < world)
    here = len(claimed) - len(outside)  # counted: a file may claim any world
    stray = f"; not in that world size: rank {', '.join(map(str, outside))}" if outside else ""
    text = f"{here} of {plural(world, 'rank')} found{stray}"
    notes.note("rank_missing", world - here if claimed else 0, text)
    return notes.freeze().notes
