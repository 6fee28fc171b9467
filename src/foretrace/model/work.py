"""GPU work as a table: one row per operation, with its launch, op, step and footprint."""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.model.intervals import Bools, Ints
from foretrace.model.recording import Recording
from foretrace.schema.gaps import with_gaps
from foretrace.schema.tables import KINDS, NONE


def work_table(trace: Recording, chosen: Bools) -> pl.DataFrame:
    """The chosen rows of `gpu`."""
    gpu, host, rows = trace.gpu, trace.host, np.flatnonzero(chosen)
    event, launch, op = gpu.id[rows], gpu.launch[rows], trace.origins.op[rows]
    names = pl.Series(host.names, dtype=pl.String)
    ops = trace.origins.host
    called = pl.Series(ops.names, dtype=pl.String)
    frame = pl.DataFrame(
        {
            "id": event,
            "kind": pl.Series(KINDS, dtype=pl.String)[gpu.kind[rows]],
            "name": names[host.name[event]],
            "ts_ns": with_gaps(gpu.start[rows], gpu.usable[rows]),
            "dur_ns": with_gaps(gpu.length[rows], gpu.usable[rows]),
            "device": _known(gpu.device[rows]),
            "stream": _known(gpu.stream[rows]),
            "correlation": _known(gpu.correlation[rows]),
            "launch": _not_negative(launch),
            "launch_name": with_gaps(names[host.name[np.maximum(launch, 0)]], launch >= 0),
            "delay_ns": _known(gpu.delay[rows]),
            "op": _not_negative(op),
            "op_name": with_gaps(called[ops.name[np.maximum(op, 0)]], op >= 0),
            "step": _not_negative(trace.spans.step_of_work()[rows]),
        }
    )
    side = trace.tables["gpu"].drop("device", "stream").rename({"event": "id"})
    return frame.join(side, on="id", how="left", maintain_order="left")


def _known(values: Ints) -> pl.Series:
    return with_gaps(values, values != NONE)


def _not_negative(values: Ints) -> pl.Series:
    return with_gaps(values, values >= 0)
