"""A trace with forty secrets in it, one in every place where a recording has been seen to carry
something private.
"""

from __future__ import annotations

from corpus import build

SECRETS = (
    *(f"canary{number:02}" for number in range(36)),
    "hf_AbCdEfGhIjKlMnOpQrStUv",
    "sk-proj4Xb9Kq27LmZt81",
    "Zq8xW3mT7kP2vR9sL4nB",
    "AKIAIOSFODNN7EXAMPLE",
)
(
    HOST,
    USER,
    PROJECT,
    JOB,
    TRACE_NAME,
    OWNER,
    LOG,
    ENVIRONMENT,
    PROCESS,
    THREAD,
    LABEL,
    PID,
    STACK,
    MODULE,
    PROMPT,
    FILE_ARG,
    KWARG,
    KERNEL_FILE,
    HASH,
    REGION_PATH,
    OP_PATH,
    FRAME,
    ARG_KEY,
    ARG_VALUE,
    TYPE,
    DIMS,
    SPAN,
    INSTANT,
    COUNTER,
    FLOW,
    GROUP,
    DESCRIPTION,
    MAIL,
    ADDRESS,
    SHARE_PATH,
    WINDOWS,
) = SECRETS[:36]
KEY_A, KEY_B, KEY_C, KEY_D = SECRETS[36:]
FILE_NAME = f"{HOST}_4242.1790857026000000000.pt.trace.json"


def document() -> build.Doc:
    """One step, one op, one kernel; every text that can be private is."""
    header = build.HEADER | {
        "host_name": HOST,
        "username": USER,
        "job": JOB,
        "owner": {"mail": f"{MAIL}@example.org", "name": OWNER},
        "INFO": [f"log {LOG}"],
        "environment": {"SECRET": ENVIRONMENT},
        "distributedInfo": {"rank": 3, "world_size": 8, "pg": GROUP},
    }
    shapes = {
        "Input Dims": [[8, 8], DIMS],
        "Input type": ["float", TYPE],
        "Concrete Inputs": [f"a prompt: {PROMPT}", f"/data/{FILE_ARG}"],
        "Call stack": f"/home/{USER}/{STACK}.py(3): main",
        "Module Hierarchy": MODULE,
        ARG_KEY: 1,
        "note": ARG_VALUE,
        "kernel_file": f"/tmp/{KERNEL_FILE}.py",
        "kernel_kwargs": {"x": KWARG},
        "kernel_hash": HASH,
        "External id": 2,
        "Process Group Description": DESCRIPTION,
    }
    events = [
        build.meta("process_name", 100, 0, {"name": PROCESS}),
        build.meta("process_labels", 100, 0, {"labels": LABEL}),
        build.meta("thread_name", 100, 100, {"name": THREAD}),
        build.complete("user_annotation", "ProfilerStep#2", 100, 100, 1_000_000, 1_000_000),
        build.complete(
            "user_annotation",
            f"load /home/{USER}/{PROJECT}/{REGION_PATH}.pt from {HOST}",
            100,
            100,
            1_010_000,
            900_000,
        ),
        build.complete(
            "user_annotation",
            f"mail {MAIL}@example.org at http://{ADDRESS}.internal/x",
            100,
            100,
            1_020_000,
            800_000,
        ),
        build.complete(
            "user_annotation",
            f"login {KEY_A} {KEY_B} {KEY_C} {KEY_D}",
            100,
            100,
            1_030_000,
            700_000,
        ),
        build.complete("cpu_op", "aten::mm", 100, 100, 1_100_000, 200_000, shapes),
        build.complete(
            "cpu_op",
            f"custom::read //nas/{SHARE_PATH}/x C:\\Users\\{WINDOWS}\\y.bin",
            100,
            100,
            1_310_000,
            1_000,
        ),
        build.complete("cpu_op", f"custom::{USER}_op src/{OP_PATH}.py", 100, 100, 1_320_000, 1_000),
        build.complete(
            "python_function",
            f"/home/{USER}/{FRAME}.py(1): go",
            100,
            100,
            1_330_000,
            1_000,
            {"Python id": 1},
        ),
        build.complete(
            "cuda_runtime",
            "cudaLaunchKernel",
            100,
            100,
            1_150_000,
            10_000,
            {"correlation": 7, "External id": 2},
        ),
        build.complete(
            "kernel",
            "sgemm",
            0,
            7,
            1_200_000,
            50_000,
            {
                "correlation": 7,
                "device": 0,
                "stream": 7,
                "grid": [4, 4, 1],
                "block": [128, 1, 1],
                "External id": 2,
            },
        ),
        build.complete("Trace", SPAN, "Spans", "PyTorch Profiler", 990_000, 1_100_000),
        build.complete("cpu_op", "aten::t", f"[{PID}] 83", 5, 1_340_000, 1_000),
        build.instant(INSTANT, "", "", 2_100_000),
        build.flow("s", 7, 100, 100, 1_150_000, name=FLOW),
        {"ph": "C", "name": COUNTER, "pid": 1, "tid": 1, "ts": 1, "args": {COUNTER: 1}},
    ]
    return build.Doc(events, header, {"traceName": f"/home/{USER}/{TRACE_NAME}.json"})
