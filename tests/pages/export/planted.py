"""A trace with forty secrets in it, one in every place where a recording has been seen to carry
something private.
"""

from __future__ import annotations

from types import SimpleNamespace

from corpus import build

_PLACES = """
HOST USER PROJECT JOB TRACE_NAME OWNER LOG ENVIRONMENT PROCESS THREAD LABEL PID STACK MODULE PROMPT
FILE_ARG KWARG KERNEL_FILE HASH REGION_PATH OP_PATH FRAME ARG_KEY ARG_VALUE TYPE DIMS SPAN INSTANT
COUNTER FLOW GROUP DESCRIPTION MAIL ADDRESS SHARE_PATH WINDOWS
"""
KEYS = (
    "hf_AbCdEfGhIjKlMnOpQrStUv",
    "sk-proj4Xb9Kq27LmZt81",
    "Zq8xW3mT7kP2vR9sL4nB",
    "AKIAIOSFODNN7EXAMPLE",
)
IN = SimpleNamespace(**{place: f"canary{at:02}" for at, place in enumerate(_PLACES.split())})
SECRETS = (*vars(IN).values(), *KEYS)
FILE_NAME = f"{IN.HOST}_4242.1790857026000000000.pt.trace.json"


def _host(
    kind: str, name: str, at_us: int, us: int, args: build.Event | None = None
) -> build.Event:
    return build.complete(kind, name, 100, 100, at_us * 1_000, us * 1_000, args)


def document() -> build.Doc:
    """One step, one op, one kernel; every text that can be private is."""
    header = build.HEADER | {
        "host_name": IN.HOST,
        "username": IN.USER,
        "job": IN.JOB,
        "owner": {"mail": f"{IN.MAIL}@example.org", "name": IN.OWNER},
        "INFO": [f"log {IN.LOG}"],
        "environment": {"SECRET": IN.ENVIRONMENT},
        "distributedInfo": {"rank": 3, "world_size": 8, "pg": IN.GROUP},
    }
    shapes = {
        "Input Dims": [[8, 8], IN.DIMS],
        "Input type": ["float", IN.TYPE],
        "Concrete Inputs": [f"a prompt: {IN.PROMPT}", f"/data/{IN.FILE_ARG}"],
        "Call stack": f"/home/{IN.USER}/{IN.STACK}.py(3): main",
        "Module Hierarchy": IN.MODULE,
        IN.ARG_KEY: 1,
        "note": IN.ARG_VALUE,
        "kernel_file": f"/tmp/{IN.KERNEL_FILE}.py",
        "kernel_kwargs": {"x": IN.KWARG},
        "kernel_hash": IN.HASH,
        "External id": 2,
        "Process Group Description": IN.DESCRIPTION,
    }
    regions = (
        f"load /home/{IN.USER}/{IN.PROJECT}/{IN.REGION_PATH}.pt from {IN.HOST}",
        f"mail {IN.MAIL}@example.org at http://{IN.ADDRESS}.internal/x",
        f"login {' '.join(KEYS)}",
    )
    links = {"correlation": 7, "External id": 2}
    place = {"device": 0, "stream": 7, "grid": [4, 4, 1], "block": [128, 1, 1]}
    launched = {"correlation": 7, **place, "External id": 2}
    read = f"custom::read //nas/{IN.SHARE_PATH}/x C:\\Users\\{IN.WINDOWS}\\y.bin"
    events = [
        build.meta("process_name", 100, 0, {"name": IN.PROCESS}),
        build.meta("process_labels", 100, 0, {"labels": IN.LABEL}),
        build.meta("thread_name", 100, 100, {"name": IN.THREAD}),
        _host("user_annotation", "ProfilerStep#2", 1_000, 1_000),
        *(
            _host("user_annotation", name, 1_010 + 10 * at, 900 - 100 * at)
            for at, name in enumerate(regions)
        ),
        _host("cpu_op", "aten::mm", 1_100, 200, shapes),
        _host("cpu_op", read, 1_310, 1),
        _host("cpu_op", f"custom::{IN.USER}_op src/{IN.OP_PATH}.py", 1_320, 1),
        _host(
            "python_function", f"/home/{IN.USER}/{IN.FRAME}.py(1): go", 1_330, 1, {"Python id": 1}
        ),
        _host("cuda_runtime", "cudaLaunchKernel", 1_150, 10, links),
        build.complete("kernel", "sgemm", 0, 7, 1_200_000, 50_000, launched),
        build.complete("Trace", IN.SPAN, "Spans", "PyTorch Profiler", 990_000, 1_100_000),
        build.complete("cpu_op", "aten::t", f"[{IN.PID}] 83", 5, 1_340_000, 1_000),
        build.instant(IN.INSTANT, "", "", 2_100_000),
        build.flow("s", 7, 100, 100, 1_150_000, name=IN.FLOW),
        {"ph": "C", "name": IN.COUNTER, "pid": 1, "tid": 1, "ts": 1, "args": {IN.COUNTER: 1}},
    ]
    return build.Doc(events, header, {"traceName": f"/home/{IN.USER}/{IN.TRACE_NAME}.json"})
