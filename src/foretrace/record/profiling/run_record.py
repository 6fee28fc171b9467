"""The run record: a small JSON file beside each trace with what the trace does not hold.

`run.json.gz` has `run.run.json`: versions, hardware, clocks, command, times without the profiler.
Every key is always there; an unknown value is null. `docs/capture.md` describes the keys; `schema`
rises when one changes its meaning.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.base import files
from foretrace.base.patterns import regex
from foretrace.base.private import cleaned, hide_secrets
from foretrace.base.version import __version__
from foretrace.record.profiling.compiler_records import CompileWatch
from foretrace.record.profiling.export import export, make_folder, record_path, trace_path

# The columns of nvidia-smi. Clocks and temperature explain differences between runs; power shows a
# cap.
_SMI_FIELDS = {
    "driver_version": "driver",
    "clocks.sm": "sm_mhz",
    "clocks.mem": "memory_mhz",
    "clocks.max.sm": "sm_max_mhz",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
    "pstate": "pstate",
}
# Variables that change kernels, compilation or the recording; no other variable is stored.
# what this process may use: a container or a batch system gives it a part of the machine
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_VARIABLES = regex(
    r"^(CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUBLAS\w*|NVIDIA_TF32_OVERRIDE|"
    r"TORCHINDUCTOR_\w+|TORCHDYNAMO_\w+|TORCH_COMPILE\w*|TORCH_LOGS|TRITON_INTERPRET|"
    r"PYTORCH_(CUDA_ALLOC_CONF|ALLOC_CONF|NO_CUDA_MEMORY_CACHING)|DISABLE_ADDMM_CUDA_LT|KINETO_\w+|"
    r"OMP_NUM_THREADS|MKL_NUM_THREADS|HF_HUB_OFFLINE|RANK|WORLD_SIZE|LOCAL_RANK)$"
)


def environment() -> dict[str, Any]:
    """The machine, the versions and the settings, as the run record stores them."""
    cudnn = torch.backends.cudnn
    return {
        "machine": {
            "os": platform.system(),
            "arch": platform.machine(),
            "cpus": CORES,
            "python": platform.python_version(),
        },
        "torch": {
            "version": str(torch.__version__),
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "cudnn": cudnn.version() if cudnn.is_available() else None,
            "triton": version_of("triton", "pytorch-triton", "pytorch-triton-rocm"),
        },
        "settings": {
            "threads": torch.get_num_threads(),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": cudnn.benchmark,
        },
        # a path says who, not how
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if _VARIABLES.match(name) and not name.endswith("_DIR")
        },
    }


def on_cuda() -> bool:
    """Whether this process uses a CUDA device."""
    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())


def card() -> dict[str, Any] | None:
    """The current CUDA device, or None where this process uses none."""
    if not on_cuda():
        return None
    at = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "name": at.name,
        "capability": f"{at.major}.{at.minor}",
        "sms": at.multi_processor_count,
        "memory_bytes": at.total_memory,
        "l2_bytes": getattr(at, "L2_cache_size", None),
    }


def clocks() -> dict[str, Any]:
    """Driver, clocks, temperature and power of the device, from nvidia-smi; empty without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None or not on_cuda():
        return {}
    # CUDA_VISIBLE_DEVICES renumbers what torch sees; the UUID names the same card to both.
    uuid = str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", ""))
    same = ["-i", uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"] if uuid else []
    query = (f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits")
    command = [tool, *query, *same]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return parse_smi(answer.stdout)
    return {}


def parse_smi(text: str) -> dict[str, Any]:
    """The first line of nvidia-smi's answer by our names; what the card does not report is None."""
    cells = text.strip().splitlines()[0].split(",") if text.strip() else []
    named = zip(_SMI_FIELDS.values(), cells, strict=False)
    return {name: _number(cell.strip()) for name, cell in named}


def command_line() -> list[str]:
    """The command line without secrets: values of options that are named so, keys, passwords."""
    kept, hide = _program(sys.argv[0]) if sys.argv else [], False
    for word in sys.argv[1:]:
        kept.append("***" if hide else hide_secrets(word))
        option = word.startswith("-") and "=" not in word
        hide = option and hide_secrets(f"{word} x") != f"{word} x"
    return kept


def _program(file: str) -> list[str]:
    """`foretrace` or `python -m package.train`, not the file inside the installation."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.origin == file:
        name = spec.name.removesuffix(".__main__")
        return [name] if name == "foretrace" else ["python", "-m", name]
    installed = os.path.abspath(file).startswith(os.path.abspath(sys.prefix) + os.sep)
    return [os.path.basename(file) if installed else file]


def version_of(*packages: str) -> str | None:
    """The installed version of the first of these packages that there is."""
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(package)
    return None


def _number(cell: str) -> int | float | str | None:
    if not cell or cell.startswith("["):  # "[N/A]", "[Not Supported]"
        return None
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(cell)
    return cell


KIND = "foretrace-run"
# Our options of a profiler, and torch's names for them.
TORCH_NAMES = {
    "shapes": "record_shapes",
    "stacks": "with_stack",
    "memory": "profile_memory",
    "modules": "with_modules",
}


@dataclass(slots=True)
class CallTimes:
    """Nanoseconds per call (or step); only `profiled_host` is measured with the profiler.

    `wall` ends with the device idle, or lies between two CUDA events; it is the median of
    `block_ns` where several blocks were timed. Both `host` times end when the host has launched its
    work: a wait inside the recording would change what is recorded. Their ratio is the profiler's
    overhead. `preempted_per_s` is how often another program took a core while the steps were timed.
    """

    first_call_ns: int | None = None
    wall_ns_per_call: int | None = None
    wall_spread: float | None = None
    block_ns: list[int] = field(default_factory=list)
    host_ns_per_call: int | None = None
    profiled_host_ns_per_call: int | None = None
    calls_timed: int = 0
    preempted_per_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The `timing` part of the record."""
        overhead = None
        if self.host_ns_per_call and self.profiled_host_ns_per_call:
            overhead = round(self.profiled_host_ns_per_call / self.host_ns_per_call - 1, 4)
        return {**asdict(self), "profiler_overhead": overhead}


@dataclass(slots=True)
class RunRecord:
    """Collects the record during a run; `note` is what a reader of the trace should know."""

    profile: Mapping[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    timing: CallTimes = field(default_factory=CallTimes)
    compiling: CompileWatch = field(default_factory=CompileWatch)
    clocks_before: dict[str, Any] = field(default_factory=clocks)
    error: str | None = None
    note: str | None = None

    def as_json(self, trace: Path) -> dict[str, Any]:
        """The record of `trace`, written now."""
        after, device = clocks(), card()
        driver = after.get("driver") or self.clocks_before.get("driver")
        return {
            "schema": 1,
            "kind": KIND,
            "foretrace": __version__,
            "trace": trace.name,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": command_line(),
            **environment(),
            "device": None if device is None else {**device, "driver": driver},
            "clocks": {"before": self.clocks_before or None, "after": after or None},
            "seed": {"torch": torch.initial_seed(), "hash": os.environ.get("PYTHONHASHSEED")},
            "profile": dict(self.profile),
            "timing": self.timing.as_json(),
            "compile": self.compiling.report(),
            "memory": {  # peak bytes of torch's allocator since the last reset, and of the process
                "peak_device_bytes": torch.cuda.max_memory_allocated() if on_cuda() else None,
                "peak_reserved_bytes": torch.cuda.max_memory_reserved() if on_cuda() else None,
                # Linux counts kilobytes
                "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            },
            "error": self.error,
            "note": self.note,
            **self.facts,
        }

    def write(self, trace: Path) -> Path:
        """Write the record of `trace` without secrets, in the place of an earlier one."""
        path = record_path(trace)
        stored = cleaned(self.as_json(trace), hide_secrets)
        files.write_text(path, json.dumps(stored, indent=1) + "\n")
        return path


def handler(folder: str | os.PathLike[str], *, name: str = "run") -> Callable[[object], None]:
    """An `on_trace_ready` that writes each trace and its record, for a user's own profiler.

    For `torch.profiler.profile`, Accelerate's `ProfileKwargs`, Lightning's `PyTorchProfiler`. Each
    recording goes to `folder/name.json.gz`, then `name_2`, `name_3`, ...; nothing is replaced.
    """
    target = trace_path(os.path.join(os.fspath(folder), name))
    record = RunRecord({})

    def write(profiler: object) -> None:
        make_folder(target.parent)  # hours may have passed since `trace_path` made it
        record.profile = profile_options(profiler)
        record.write(export(profiler, target))

    return write


def profile_options(profiler: Any) -> dict[str, Any]:
    """What another profiler records, under the names of our options."""
    return {ours: bool(getattr(profiler, theirs, False)) for ours, theirs in TORCH_NAMES.items()}


SETTLING = 2  # steps after the profiler stopped that do not count
BLOCKS, LEAST_BLOCKS = 10, 3  # blocks that are timed; fewer than the second have no spread
MOST_STEPS = 50  # of a block
BLOCK_NS = 50_000_000  # shorter blocks measure the scheduler
LIMIT_NS = 30_000_000_000  # slow steps: what was timed until then is enough
LEAST_STEPS = 10  # by themselves, of a short script: each is a block then

Batch = tuple[int, int]  # wall and host nanoseconds per step
Mark = tuple[Any, int]  # a CUDA event, and when the host recorded it


class StepTimes:
    """Call `step` when a step ends, and `keep` at the end."""

    def __init__(self, timing: CallTimes) -> None:
        self.timing = timing
        self.is_over = False
        self._blocks: list[Batch] = []
        self._marks: list[Mark] = []  # between blocks, on CUDA
        self._steps = 0
        self._ends: list[int] = []  # of all steps after the settling
        self._since = _preempted()
        self._plan = self._timed()
        next(self._plan)

    def step(self) -> bool:
        """A step has ended; returns whether enough are timed."""
        if not self.is_over:
            if self._ends:
                self._ends.append(perf_counter_ns())
            self.is_over = next(self._plan, True) is True
        return self.is_over

    def keep(self) -> bool:
        """Put the times into the record; returns whether there are enough."""
        self.is_over = True
        self._read_marks()
        if len(self._blocks) < LEAST_BLOCKS and not self._one_by_one():
            return False
        keep_times(self.timing, self._blocks, self._steps)
        (before, began), (after, ended) = self._since, _preempted()
        self.timing.preempted_per_s = round((after - before) / max(ended - began, 1) * 1e9, 1)
        return True

    def _one_by_one(self) -> bool:
        """Take the time of each step, where a script ends before there are blocks.

        An accelerator runs behind the host, so that the end of a step says nothing about it.
        """
        times = [end - begin for begin, end in pairwise(self._ends)]
        if on_accelerator() or len(times) < LEAST_STEPS:
            return False
        self._blocks, self._steps = [(time, time) for time in times], len(times)
        return True

    def _timed(self) -> Generator[None, None, None]:
        for _ in range(SETTLING):
            yield
        self._since = _, began = _preempted()
        self._ends.append(began)
        ends, count = began + LIMIT_NS, 1
        while len(self._blocks) < BLOCKS and perf_counter_ns() < ends:
            block = yield from _block(count)
            longer = min(math.ceil(BLOCK_NS / block[0]), MOST_STEPS)
            if longer > count and not self._blocks:  # it only told how long a block must be
                count = longer
                continue
            if on_cuda():
                yield from self._mark_blocks(count, ends)
                return
            self._blocks.append(block)
            self._steps += count

    def _mark_blocks(self, count: int, ends: int) -> Generator[None, None, None]:
        """Blocks that follow each other: a plain loop does not wait for the GPU between steps.

        Work on another stream counts as far as the current stream waits for it.
        """
        yield  # the GPU was waited for, and its queue fills again
        device = torch.cuda.current_device()
        self._marks.append(_mark(device))
        while len(self._marks) <= BLOCKS and perf_counter_ns() < ends:
            for _ in range(count):
                yield
            self._marks.append(_mark(device))
            self._steps += count

    def _read_marks(self) -> None:
        if len(self._marks) > 1:
            self._marks[-1][0].synchronize()
            count = self._steps // (len(self._marks) - 1)
            walls, hosts = zip(*(_between(*pair) for pair in pairwise(self._marks)), strict=True)
            # a launch into a full queue waits for the GPU: the least host time has no such wait
            self._blocks = [(wall // count, min(hosts) // count) for wall in walls]
            self._marks = []


def _preempted() -> tuple[int, int]:
    """How often this process lost a core to another program so far, and when that was asked."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, perf_counter_ns()


def _block(count: int) -> Generator[None, None, Batch]:
    synchronize()
    began = perf_counter_ns()
    for _ in range(count):
        yield
    issued = perf_counter_ns()
    synchronize()
    return max(perf_counter_ns() - began, 1) // count, (issued - began) // count


def _mark(device: int) -> Mark:
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event, perf_counter_ns()


def _between(before: Mark, after: Mark) -> Batch:
    gpu_ms = before[0].elapsed_time(after[0])
    return max(round(gpu_ms * 1e6), 1), after[1] - before[1]


def keep_times(timing: CallTimes, batches: Sequence[Batch], calls: int) -> None:
    """The medians of batches, their wall times, and the range of these over the median."""
    walls, hosts = zip(*batches, strict=True)
    wall_ns = int(statistics.median(walls))
    timing.wall_ns_per_call, timing.host_ns_per_call = wall_ns, int(statistics.median(hosts))
    timing.wall_spread = round((max(walls) - min(walls)) / wall_ns, 4) if wall_ns else None
    timing.block_ns, timing.calls_timed = list(walls), calls


def on_xpu() -> bool:
    """Whether this torch can use an Intel GPU."""
    return bool(hasattr(torch, "xpu") and torch.xpu.is_available())


def on_accelerator() -> bool:
    """Whether this process may use one."""
    return on_cuda() or on_xpu()


def synchronize() -> None:
    """Wait for the accelerator, if this process uses one."""
    if on_cuda():
        torch.cuda.synchronize()
    elif on_xpu():
        torch.xpu.synchronize()
