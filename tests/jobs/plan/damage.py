"""Jobs that are not as they should be: what each does to the folder of a job of four ranks."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobs.plan.plan import Clock, Delay, Gaps, Plan
from jobs.plan.write import write

Spoil = Callable[[Path], object]
PLAN = Plan(by_rank=True, ranks_per_host=2, delays=(Delay("compute", 300_000, (2,)),),
            clocks={1: Clock(50_000)})  # fmt: skip


def job(**changes: Any) -> Spoil:
    """A job of four ranks with some part of its plan replaced."""
    return lambda folder: write(replace(PLAN, **changes), folder)


def documents(change: Callable[[int, dict[str, Any]], object]) -> Spoil:
    """Every file of a whole job goes through `change(rank, document)`."""

    def spoil(folder: Path) -> None:
        for rank, path in write(PLAN, folder).files.items():
            document = json.loads(gzip.decompress(path.read_bytes()))
            change(rank, document)
            path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))

    return spoil


def events(change: Callable[[int, dict[str, Any]], object]) -> Spoil:
    """Every event of a whole job goes through `change(rank, event)`."""
    return documents(
        lambda rank, document: [change(rank, each) for each in document["traceEvents"]]
    )


def file(name: str, content: bytes) -> Spoil:
    """A whole job with one more file."""

    def spoil(folder: Path) -> None:
        write(PLAN, folder)
        (folder / name).write_bytes(content)

    return spoil


def said(**given: Any) -> Spoil:
    """What the collectives of rank 1 state, replaced."""

    def change(rank: int, event: dict[str, Any]) -> None:
        if rank == 1 and "Seq" in event.get("args", {}):
            event["args"].update({name.replace("_", " "): value for name, value in given.items()})

    return events(change)


def timed(**given: Any) -> Spoil:
    """The times of the kernels of rank 1, replaced."""

    def change(rank: int, event: dict[str, Any]) -> None:
        if rank == 1 and event.get("cat") == "kernel":
            event.update(given)

    return events(change)


def _many_groups(rank: int, event: dict[str, Any]) -> None:
    if "Seq" in event.get("args", {}):
        event["args"]["Process Group Name"] = f"group {rank} {event['ts']}"


def _two_jobs(folder: Path) -> None:
    write(PLAN, folder / "monday")
    write(replace(PLAN, data=6, start_ns=PLAN.start_ns + 86_400_000_000_000), folder / "tuesday")


def _links(folder: Path) -> None:
    files = write(PLAN, folder).files
    (folder / "again").symlink_to(folder)
    (folder / "rank1.json.gz").unlink()
    (folder / "rank1.json.gz").symlink_to(files[0])
    (folder / "rank9.json.gz").symlink_to("/nonexistent/rank9.json.gz")


def _pipe(folder: Path) -> None:
    write(PLAN, folder)
    os.mkfifo(folder / "rank5.json")


def _info(**given: Any) -> Spoil:
    return documents(lambda rank, document: rank or document["distributedInfo"].update(given))


# what is wrong: how it comes about
SPOILED: dict[str, Spoil] = {
    "one rank": job(data=1),
    "one of four ranks": job(gaps=Gaps(missing=(0, 1, 2))),
    "a rank is missing": job(gaps=Gaps(missing=(3,))),
    "a rank is double": job(gaps=Gaps(double=(1,))),
    "a file is cut": job(gaps=Gaps(cut=(1,))),
    "a file is damaged": job(gaps=Gaps(damaged=(1,))),
    "a file is empty": job(gaps=Gaps(empty=(1,))),
    "another world size": job(gaps=Gaps(worlds={2: 16})),
    "a collective that some recorded": job(gaps=Gaps(unrecorded=((1, "data", 3),))),
    "steps that some recorded": job(gaps=Gaps(steps={1: (1, 2), 3: (0,)})),
    "no step in common": job(gaps=Gaps(steps={0: (0,), 1: (1,), 2: (2,), 3: (0,)})),
    "nothing but one step number": job(steps=1),
    "nothing about collectives": job(
        gaps=Gaps(
            unstated=(
                "Seq",
                "Comms Id",
                "Process Group Name",
                "Collective name",
                "dtype",
                "Group size",
                "Process Group Ranks",
                "In msg nelems",
            )
        )
    ),
    "no steps": job(stated_steps=False),
    "two jobs": _two_jobs,
    "links": _links,
    "a pipe": _pipe,
    "other files": file("notes.json", b'{"hello": [1, 2, {"ts": 3}]}'),
    "an empty list of events": file("rank4.json", b'{"traceEvents": []}'),
    "a name of control characters": file("rank\x1b[31m4\n.json", b"{"),
    "a name that is no text": file(os.fsdecode(b"rank\xff\xfe.json"), b"\xff\xfe"),
    "a negative Seq": said(Seq=-7),
    "a huge Seq": said(Seq=2**63 - 1),
    "a Seq beyond any number": said(Seq=10**30),
    "a Seq that is text": said(Seq="first"),
    "the same Seq always": said(Seq=1),
    "a group of another size": said(Group_size=0, Process_Group_Ranks="[0, 1"),
    "a group with a strange name": said(Process_Group_Name="\x1b]0;\x07" + "g" * 5000),
    "another name of the group": said(Process_Group_Name="default"),
    "another collective": said(Collective_name="broadcast"),
    "huge messages": said(In_msg_nelems=2**62, Out_msg_nelems=2**62),
    "negative messages": said(In_msg_nelems=-5, Out_msg_nelems=-5),
    "a group for every collective": events(_many_groups),
    "times that are no numbers": timed(ts=float("nan")),
    "endless kernels": timed(dur=float("inf")),
    "negative kernels": timed(dur=-5.0),
    "kernels of a century": timed(dur=3.2e15),
    "kernels at the end of time": timed(ts=9.2e15),
    "kernels without any time": timed(dur=0.0),
    "a rank that is text": _info(rank="zero"),
    "a negative rank": _info(rank=-1),
    "a rank beyond the world": _info(rank=2**40),
    "a world of 2^60": _info(world_size=2**60),
    "groups that are no list": _info(pg_config={"pg_name": 3}),
    "groups of strange things": _info(
        pg_config=[None, 3, {"ranks": "all"}, {"ranks": [None, "x"]}]
    ),
    "no header": documents(lambda rank, document: document.pop("distributedInfo")),
    "no time base": documents(lambda rank, document: document.pop("baseTimeNanoseconds")),
    "other time bases": documents(
        lambda rank, document: document.update(baseTimeNanoseconds=rank * 10**18)
    ),
}
