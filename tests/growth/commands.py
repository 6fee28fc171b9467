"""Every command that opens something, and an input of any shape for it."""

from __future__ import annotations

import json
from pathlib import Path

from growth.logs import LOGS
from growth.shapes import SHAPES, sound

TRACE, OUT = "{trace}", "{out}"
COMMANDS: dict[str, tuple[str, ...]] = {
    "look": ("look", TRACE, "--json"),
    "fixes": ("look", TRACE, "--fixes", "--json"),
    "report": ("report", TRACE, "-o", OUT + ".html"),
    "share": ("export", TRACE, "--to", "shared", "-o", OUT),
    "compare": ("compare", TRACE, "{other}", "--all"),
    "check": ("check", TRACE, "-g", "kernels < 9", "-g", "host-bound", "--all"),
    "export": ("export", TRACE, "--to", "csv", "-o", OUT + ".csv"),
    "collapsed": ("export", TRACE, "--to", "collapsed", "-o", OUT + ".txt"),
    "perfetto": (
        *("export", TRACE, "--to", "perfetto", "--annotated", "--no-browser"),
        *("-o", OUT + ".json.gz"),
    ),
    "guess": ("check", TRACE, "--write"),
    "lesson": ("lesson", TRACE, "--json"),
    "job": ("job", "{job}", "--all"),
    "job_json": ("job", "{job}", "--json", "--html", OUT + ".html", "--perfetto", OUT + ".json.gz"),
    "why": ("why", "{why}", "--all"),
}
_CHOSEN = """
    threads kernel_names op_names streams devices steps regions nested_regions deep
    deep_with_launches counters collectives process_groups stacks modules nested_modules memory
    graphs input_shapes crossing
"""
SHARED = (*_CHOSEN.split(), *LOGS)


def prepared(shape: str, size: int, folder: Path) -> dict[str, Path]:
    """The files of one input: a trace, the same once more, two as a job, and a log beside it."""
    trace, other, job, logs = (folder / name for name in ("a.json", "b.json", "job", "a.why"))
    content = SHAPES.get(shape, lambda _: sound(6))(size).bytes("minified")
    trace.write_bytes(content)
    other.write_bytes(content)
    job.mkdir()
    for rank in range(2):
        about = {"distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"}}
        (job / f"{rank}.json").write_text(json.dumps(json.loads(content) | about))
    if shape in LOGS:
        logs.mkdir()
        (logs / "torch_trace.log").write_text(LOGS[shape](size))
    given = {"trace": trace, "other": other, "job": job, "out": folder / "out"}
    return given | {"why": logs if shape in LOGS else trace}
