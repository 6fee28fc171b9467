"""Recorded traces as op calls and the kernels they launched, read with the standard library."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import foretrace.read.recordings
from foretrace.work.costs import OpCall

RECORDED = sorted((Path(foretrace.read.recordings.__file__).parent / "h200").glob("*.json.gz"))
SHAPES = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


@dataclass(frozen=True)
class Launched:
    """One op with recorded shapes and the kernels under its `External id`."""

    call: OpCall
    kernels: tuple[dict[str, Any], ...]


@lru_cache(maxsize=1)
def events(path: Path) -> list[dict[str, Any]]:
    document = json.loads(
        gzip.decompress(path.read_bytes()).decode("utf-8", "replace"), strict=False
    )
    found: list[dict[str, Any]] = (
        document["traceEvents"] if isinstance(document, dict) else document
    )
    return found


def kernels(path: Path) -> list[dict[str, Any]]:
    return [event for event in events(path) if str(event.get("cat")).lower() == "kernel"]


def launched(path: Path) -> Iterator[Launched]:
    """Every op that recorded shapes and launched kernels."""
    by_id: dict[object, list[dict[str, Any]]] = defaultdict(list)
    ops: dict[object, dict[str, Any]] = {}
    for event in events(path):
        args = event.get("args") or {}
        if str(event.get("cat")).lower() == "kernel":
            by_id[args.get("External id")].append(event)
        elif event.get("cat") == "cpu_op" and "Input Dims" in args:
            ops[args.get("External id")] = event
    for key, group in by_id.items():
        if key in ops:
            args = ops[key]["args"]
            rest = {name: value for name, value in args.items() if name not in SHAPES}
            dims, types, strides, concrete = (args.get(name, []) for name in SHAPES)
            yield Launched(
                OpCall(ops[key]["name"], dims, types, strides, concrete, rest), tuple(group)
            )
