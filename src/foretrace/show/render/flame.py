"""GPU time as stacks in the formats of other tools: collapsed stacks, speedscope, CSV."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import polars as pl

from foretrace.model.arguments import json_text
from foretrace.model.flame import Stack, Stacks
from foretrace.model.trace import Trace
from foretrace.show.render.rows import csv_parts
from foretrace.show.render.safe import plain

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_KERNELS = """
    name short family role op_name module pass dims types ts_ns dur_ns device stream step
    flops bytes cost_certainty
"""


def written(trace: Trace, form: str) -> str:
    """The text of `foretrace export`: `speedscope`, `collapsed` or `csv`."""
    if form == "csv":
        return "".join(csv_parts(kernel_table(trace)))
    stacks = Stacks(trace).every()
    if form == "collapsed":
        return "".join(collapsed(stacks))
    return speedscope(stacks, os.path.basename(trace.path))


def collapsed(stacks: Sequence[Stack]) -> Iterator[str]:
    """One line for each stack: frames with `;` between them, a blank, nanoseconds."""
    for stack in stacks:
        frames = ";".join(plain(frame).replace(";", ":") for frame in stack.frames)
        yield f"{frames} {stack.ns}\n"


def speedscope(stacks: Sequence[Stack], title: str) -> str:
    """A document for speedscope.app: one sample for each stack, its weight in nanoseconds."""
    number: dict[str, int] = {}
    samples = [
        [number.setdefault(plain(frame), len(number)) for frame in stack.frames] for stack in stacks
    ]
    weights = [stack.ns for stack in stacks]
    profile = {
        "type": "sampled",
        "name": plain(title),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return (
        json.dumps(
            {
                "$schema": SCHEMA,
                "shared": {"frames": [{"name": name} for name in number]},
                "profiles": [profile],
                "name": plain(title),
                "activeProfileIndex": 0,
                "exporter": "foretrace",
            }
        )
        + "\n"
    )


def kernel_table(trace: Trace) -> pl.DataFrame:
    """One row per kernel: module, pass, op, shapes, time, cost."""
    stacks, rows = Stacks(trace), trace.gpu.is_kernel.nonzero()[0].tolist()
    signatures, numbers = trace.origins.arguments.signatures, trace.kernels["signature"].to_list()
    forms = [signatures[number] if number >= 0 else None for number in numbers]
    columns = [
        pl.Series("module", ["/".join(stacks.scopes(row)) for row in rows], pl.String),
        pl.Series("pass", [stacks.ran(row) for row in rows], pl.String),
        pl.Series("dims", [json_text(form.dims) if form else None for form in forms], pl.String),
        pl.Series("types", [json_text(form.types) if form else None for form in forms], pl.String),
    ]
    return trace.kernels.with_columns(columns).select(_KERNELS.split())
