"""What ran where: versions, the GPU and its clocks, the settings that change which kernels run.

Everything here only reads, and an unknown value is None.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from typing import Any

import torch

from foretrace.base.private import hide_secrets

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
_VARIABLES = re.compile(
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
            "cpus": os.cpu_count(),
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
