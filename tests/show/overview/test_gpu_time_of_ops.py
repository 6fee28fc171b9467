"""The GPU time of an op is that of everything launched below it, as the profiler's table has it."""

from __future__ import annotations

import gzip
import json

from foretrace.read.recordings import folder
from foretrace.show.overview.reading import overview_of

PATH = folder("h200") / "ladder" / "mlp_eager_64x128x768x3072_bf16.json.gz"


def test_ops_have_the_gpu_time_launched_below_them() -> None:
    rows = {row.name: row.gpu_ns for row in overview_of(str(PATH), cache=False).look.ops}
    events = json.loads(gzip.decompress(PATH.read_bytes()))["traceEvents"]
    kernels = [event for event in events if event.get("cat") in ("kernel", "gpu_memset")]
    pointwise = {"gelu": "aten::gelu", "Mul": "aten::mul"}
    spent = dict.fromkeys(["aten::mm", *pointwise.values()], 0)
    for event in kernels:
        found = (op for word, op in pointwise.items() if word.lower() in event["name"].lower())
        spent[next(found, "aten::mm")] += round(event["dur"] * 1000)
    assert {name: rows[name] for name in spent} == spent
    assert rows["aten::linear"] == rows["aten::matmul"] == rows["aten::mm"]
    assert rows["aten::t"] == 0
