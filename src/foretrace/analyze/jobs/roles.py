"""What groups are for: a job of 1,024 ranks has 128 tensor-parallel groups, and one question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.analyze.jobs.groups import labels

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

_SAYS_NOTHING = ("", "undefined")  # torch writes the latter where the program describes nothing


def roles(job: Job) -> pl.DataFrame:
    """rank, group, label, size and role: what the program says about a group, else its label."""
    told = [
        (each.rank, group.name, group.size, group.description)
        for each in job.members
        for group in each.groups
    ]
    kinds = {"rank": pl.Int64, "group": pl.String, "size": pl.Int64, "description": pl.String}
    stated = pl.DataFrame(told, kinds, orient="row").unique(("rank", "group"), keep="first")
    known = labels(job.members).select("rank", "group", "label")
    described = ~pl.col("description").is_in(_SAYS_NOTHING)
    role = pl.when(described).then("description").otherwise("label")
    return known.join(stated, on=("rank", "group"), how="left").select(
        "rank", "group", "label", "size", pl.coalesce(role, "label").alias("role")
    )
