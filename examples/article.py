"""What the article's scripts share: flags, device and dtype, the profiled loop and its two files.

The loop is the article's: wait 1, warm up 1, record 3. `foretrace.capture` adds the run record and
a trace that is whole or not there at all; it also records shapes, which the article's tables of
dimensions need.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from foretrace.base.errors import ForetraceError
from foretrace.record.profiling import capture

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def flags(text: str | None, trace_dir: str, **sizes: int) -> argparse.ArgumentParser:
    """The flags of a script: its sizes, `--compile`, `--why` and `--trace_dir`."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=text, formatter_class=raw)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--why", action="store_true", help="keep the compiler's records")
    parser.add_argument("--trace_dir", default=f"./traces/{trace_dir}")
    return parser


def tag(args: argparse.Namespace, *parts: object) -> str:
    """The name of a script's files: its sizes, then `compile` or `eager`."""
    return "_".join(map(str, (*parts, "compile" if args.compile else "eager")))


def place(dtype: str | None = None) -> dict[str, object]:
    """The GPU if there is one, and the dtype: bf16 by default, fp32 on a CPU without bf16."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype is None and device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print("this CPU has no bf16 arithmetic: running in fp32", file=sys.stderr)
        dtype = "fp32"
    # A page of C++ frames that says what is expected of bf16 on such a CPU: it works, slowly.
    warnings.filterwarnings("ignore", message="mkldnn_matmul failed")
    return {"device": device, "dtype": DTYPES[dtype or "bf16"]}


def profile(
    call: Callable[[], object],
    args: argparse.Namespace,
    *,
    region: str,
    tag: str,
    warm: bool = True,
) -> None:
    """Profile `call`; write `trace_dir/tag.json` (the trace), `.txt` (the table), `.run.json` (the
    run record) and, with `--why`, `.why` (the compiler's records).
    """
    trace_dir, warmup = args.trace_dir, 3 if warm else 0
    if args.compile and not torch.cuda.is_available():
        from torch._inductor import config

        config.cpp.enable_kernel_profile = True  # else a CPU trace does not show what was fused
    files = {"region": region, "overwrite": True, "why": args.why}
    path = Path(trace_dir) / f"{tag}.json"
    with torch.no_grad(), capture(path, steps=3, warmup=warmup, **files) as prof:
        for _ in range(warmup + 5):
            call()
            prof.step()
    order = "cuda_time_total" if torch.cuda.is_available() else "cpu_time_total"
    # Every row: the article's fifteen cut off some of the rows that its text points at.
    table = prof.key_averages().table(sort_by=order, row_limit=-1)
    (Path(trace_dir) / f"{tag}.txt").write_text(table + "\n", encoding="utf-8")
    print(table)
    print(f"trace: {prof.trace}")
    if prof.bundle is not None:
        print(prof.bundle.text, file=sys.stderr)


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`; an error that the user can fix is one line, not a traceback."""
    try:
        main()
    except ForetraceError as problem:
        print(problem, file=sys.stderr)
        raise SystemExit(problem.exit_code) from None
