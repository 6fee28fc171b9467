"""Tables as JSON or CSV, and GPU time as stacks for other tools: collapsed, speedscope."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from foretrace.base.terminal import csv_cell, plain
from foretrace.trace.arguments import json_text
from foretrace.trace.cpu_ops import computing_ops
from foretrace.trace.flame import Scopes, Stack, Stacks, host_stacks
from foretrace.trace.trace import Trace
from foretrace.work.kernel_row import facts

AT_ONCE = 10_000  # rows in a part of a text


def json_rows(frame: pl.DataFrame) -> list[list[Any]]:
    """The rows as JSON values: a number that is not finite is null, other types are text."""
    return [[_json(value) for value in row] for row in frame.iter_rows()]


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    return value if value is None or isinstance(value, int | str) else str(value)


def csv_parts(frame: pl.DataFrame) -> Iterator[str]:
    """CSV in which no cell can be taken for a formula, and nothing acts on a terminal."""
    yield _lines([[csv_cell(name) for name in frame.columns]])
    for part in frame.iter_slices(AT_ONCE):
        typed = (
            [(_cell(value), isinstance(value, str | list)) for value in row]
            for row in part.iter_rows()
        )
        yield _lines([csv_cell(cell) if words else cell for cell, words in row] for row in typed)


def _lines(rows: Iterable[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_KERNELS = """
    name short family role op_name module pass dims types ts_ns dur_ns device stream step
    flops bytes cost_certainty
"""
_OPS = "name caller module pass dims types ts_ns dur_ns self_ns computes step"


def exported(trace: Trace, form: str) -> str:
    """The text of `foretrace export`: `speedscope`, `collapsed` or `csv`; of host time where there
    is no GPU work.
    """
    on_gpu = len(trace.gpu) > 0
    if form == "csv":
        return "".join(csv_parts(kernel_table(trace) if on_gpu else op_table(trace)))
    stacks = Stacks(trace).every() if on_gpu else host_stacks(trace)
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
    document = {
        "$schema": SCHEMA,
        "shared": {"frames": [{"name": name} for name in number]},
        "profiles": [profile],
        "name": plain(title),
        "activeProfileIndex": 0,
        "exporter": "foretrace",
    }
    return json.dumps(document) + "\n"


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
    stated = [name for name, fact in facts().items() if fact.head]
    of_kernels = trace.kernel_cases[trace.order.case_of_work[rows]].select(stated)
    return trace.kernels.with_columns(*columns, *of_kernels).select(*_KERNELS.split(), *stated)


def op_table(trace: Trace) -> pl.DataFrame:
    """One row per call of a host op: its caller, module, pass, shapes, times, and its step."""
    ops, host = trace.ops, trace.host
    events = ops["id"].to_numpy()
    scopes, rows = Scopes(trace, events), range(len(events))
    callers = host.nearest_op(host.parent[events].astype(np.int64)).tolist()
    steps = trace.spans.step_of_events()[events].tolist()
    columns = [
        pl.Series("caller", [host.names[host.name[at]] if at >= 0 else "" for at in callers]),
        pl.Series("module", ["/".join(scopes.names(row)) for row in rows], pl.String),
        pl.Series("pass", [scopes.ran(row) for row in rows], pl.String),
        pl.Series("computes", computing_ops(trace)[0][events]),
        pl.Series("step", [at if at >= 0 else None for at in steps], pl.Int64),
    ]
    return ops.with_columns(columns).select(_OPS.split())
