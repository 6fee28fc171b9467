"""Logs of torch.compile of any size that are extreme in one way, as `shapes.py` has traces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

_HEAD = "V1115 07:58:48.410000 100 torch/_inductor/graph.py:2523] "
_STACK = [{"line": 4, "name": "forward", "filename": "model.py", "loc": "x = y"}]


def record(about: dict[str, Any], payload: str = "", frame: int = 0) -> str:
    """One record as torch writes it."""
    about = about | {"frame_id": frame, "frame_compile_id": 0, "attempt": 0}
    if payload:
        about |= {"has_payload": hashlib.md5(payload.encode()).hexdigest()}
    below = "".join(f"\t{line}\n" for line in payload.split("\n")) if payload else ""
    return f"{_HEAD}{json.dumps(about)}\n{below}"


def _phase(name: str, ph: str, at: int) -> str:
    event = {"name": name, "ph": ph, "ts": 1000.0 + at, "pid": 100, "args": {"compile_id": "0/0"}}
    return record({"chromium_event": {}}, json.dumps(event))


def _message(channel: str, text: str, compile_id: str = "0/0") -> str:
    lines = text.split("\n")
    return "".join(f"{_HEAD}[{compile_id}] [__{channel}] {line}\n" for line in lines)


def _started(frame: int = 0) -> str:
    return record({"dynamo_start": {"stack": _STACK}}, frame=frame)


def _graph(frame: int, nodes: int) -> str:
    source = "    # File: model.py:4 in forward, code: x = y"
    lines = [f"    x{at + 1}: f32[8][1] = torch.gelu(x{at})" for at in range(nodes)]
    body = "\n".join(["def forward(self, x0):", *(f"{source}\n{line}" for line in lines)])
    return record({"dynamo_output_graph": {}}, f"class M:\n{body}\n    return x0", frame)


def begun(n: int) -> str:
    """Phases that begin and never end."""
    return _started() + "".join(_phase("compile", "B", at) for at in range(n))


def ended(n: int) -> str:
    """Phases that end without a beginning, under some that never end."""
    open_ones = "".join(_phase("compile", "B", at) for at in range(n // 2))
    return _started() + open_ones + "".join(_phase("other", "E", at) for at in range(n // 2))


def named_phases(n: int) -> str:
    pairs = (_phase(f"p{at}", "B", at) + _phase(f"p{at}", "E", at + 1) for at in range(n // 2))
    return _started() + "".join(pairs)


def compilations(n: int) -> str:
    return "".join(_started(at) + _graph(at, 1) for at in range(n // 2))


def one_graph(n: int) -> str:
    return _started() + _graph(0, n)


def broken_graphs(n: int) -> str:
    reason = {"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}}
    text = 'Graph break\n  File "model.py", line 4, in forward\n    x = y'
    return "".join(_started(at) + record(reason, text, at) for at in range(n // 2))


def refusals(n: int) -> str:
    """Reasons of the scheduler, each about another pair."""
    lines = (f"cannot fuse op{at} with op{at + 1}: no shared data" for at in range(n))
    return _started() + "".join(_message("fusion", line) for line in lines)


def guard_failures(n: int) -> str:
    lines = (f"    - 0/{at}: x.size()[0] == {at}" for at in range(n))
    text = "Recompiling function f in model.py:4\n" + "\n".join(lines)
    return _started() + _message("recompiles", text, "0/1")


def code(n: int) -> str:
    """One wrapper with many kernels."""
    kernels = (
        f"k{at} = async_compile.triton('k{at}', '''\nimport triton\ndef k{at}(p, x): pass\n''')"
        for at in range(n // 4)
    )
    calls = (f"        k{at}.run(buf{at}, buf{at + 1}, 8, stream=s0)" for at in range(n // 4))
    text = "\n".join(["# AOT ID: ['0_forward']", *kernels, "def call(args):", *calls])
    return _started() + record({"inductor_output_code": {}}, text)


def nested(n: int) -> str:
    """A payload of JSON as deep as it is long."""
    about = {"artifact": {"name": "recompile_reasons", "encoding": "json"}}
    return _started() + record(about, "[" * n + "]" * n)


def quotes(n: int) -> str:
    """Quotes that open what a pattern looks for, and never close it."""
    about = {"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}}
    return _started() + record(about, "'  a\\" * n) + _message("fusion", "\"  File: a:1 in '''" * n)


def crowd(n: int) -> str:
    """A part of each."""
    others = [make for make in LOGS.values() if make is not crowd]
    return "".join(make(n // 4) for make in others)


LOGS: dict[str, Callable[[int], str]] = {
    make.__name__: make
    for make in (
        begun,
        ended,
        named_phases,
        compilations,
        one_graph,
        broken_graphs,
        refusals,
        guard_failures,
        code,
        nested,
        quotes,
        crowd,
    )
}
