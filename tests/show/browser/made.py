"""Traces for the browser, made from a recording: as many events as wanted, threads that idle, and
allocations.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec

Event = dict[str, Any]
MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"
IDLE_THREADS = 12
MEGABYTE = 1_000_000


def training(events: int = 0) -> bytes:
    """The recorded training steps with Python frames, repeated until there are so many events.

    Each turn runs a little slower than the one before, so that no two have the same times and
    packing them is no easier than packing as many recorded ones. Twelve threads wait throughout,
    as those of tqdm and of a data loader do, and ops allocate what the panel of memory shows.
    """
    document = msgspec.json.decode(gzip.decompress(MODULES.read_bytes()))
    once: list[Event] = document["traceEvents"]
    lasting = [event for event in once if event.get("ph") == "X"]
    flows = [event for event in once if event.get("ph") in ("s", "f")]
    names = [event for event in once if event.get("ph") == "M"]
    first = min(event["ts"] for event in lasting)
    span = max(event["ts"] + event["dur"] for event in lasting) - first
    made = names + _allocations(lasting)
    for turn in range(max(1, -(-(events - len(made)) // (len(lasting) + len(flows))))):
        made += [_moved(event, turn, first, span) for event in (*lasting, *flows)]
    end = max(event["ts"] + event.get("dur", 0) for event in made if "ts" in event)
    host = next(event for event in lasting if event.get("cat") == "python_function")
    for number in range(IDLE_THREADS):
        made += _waiting(host["pid"], number, first, end - first)
    return msgspec.json.encode(document | {"traceEvents": made})


def _moved(event: Event, turn: int, first: float, span: float) -> Event:
    if turn == 0:
        return event
    slower = 1 + 0.0137 * turn
    moved = event | {"ts": round(first + (event["ts"] - first) * slower + 2 * turn * span, 3)}
    if "dur" in event:
        moved["dur"] = round(event["dur"] * slower, 3)
    if "id" in event:
        moved["id"] = event["id"] + turn * 10_000_000
    if event["name"].startswith("ProfilerStep#"):
        moved["name"] = f"ProfilerStep#{int(event['name'].partition('#')[2]) + turn * 3}"
    arguments = event.get("args", {})
    numbers = {"correlation", "External id", "Python id", "Python parent id"} & arguments.keys()
    known = {key: arguments[key] for key in numbers if arguments[key] is not None}
    return moved | {
        "args": arguments | {key: value + turn * 10_000_000 for key, value in known.items()}
    }


def _waiting(pid: int, number: int, first: float, lasting: float) -> list[Event]:
    """A thread that does nothing but wait."""
    tid = 900_000 + number
    name = {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid}
    frame = {"ph": "X", "cat": "python_function", "pid": pid, "tid": tid}
    frames = [("threading.py(1032): _bootstrap", 0.0), ("threading.py(355): wait", lasting * 0.01)]
    return [
        name | {"args": {"name": f"tqdm monitor {number}"}},
        *(
            frame
            | {
                "name": text,
                "ts": round(first + later, 3),
                "dur": round(lasting - 2 * later, 3),
                "args": {"Python id": 900_000_000 + 10 * number + at, "Python parent id": None},
            }
            for at, (text, later) in enumerate(frames)
        ),
    ]


def _allocations(lasting: list[Event]) -> list[Event]:
    """Every linear layer allocates 4 MB; the last op of a step returns all of them."""
    ops = [event for event in lasting if event.get("cat") == "cpu_op"]
    linear = sorted((e for e in ops if e["name"] == "aten::linear"), key=lambda e: e["ts"])
    made, held = [], 0
    for number, op in enumerate(linear):
        size = 4 * MEGABYTE if (number + 1) % 20 else -held
        held += size
        made.append(_memory(op, size, 100 * MEGABYTE + held, 1000 + number))
    return made


def _memory(op: Event, size: int, total: int, address: int) -> Event:
    arguments = {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size}
    totals = {"Total Allocated": total, "Total Reserved": 256 * MEGABYTE}
    instant = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]"}
    place = {"pid": op["pid"], "tid": op["tid"], "ts": round(op["ts"] + op["dur"] / 2, 3)}
    return instant | place | {"args": arguments | totals}
