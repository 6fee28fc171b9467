"""Writes the names that a copy for others keeps: `src/foretrace/pages/export/public_names.toml`.

    .venv/bin/python tools/public_names.py

Every name comes from a public source: ops and classes from the installed torch, ops of servers
that foretrace knows, calls of CUDA from the headers that Triton brings, words of kernels from the
worked examples of the kernel families and from the recordings.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import foretrace  # noqa: E402
from foretrace.pages.export.allowed import USERS, _spelled, words_of  # noqa: E402
from foretrace.work import families  # noqa: E402

TARGET = ROOT / "src/foretrace/pages/export/public_names.toml"
NAMESPACES = (
    "aten prims c10d _c10d_functional _c10d_functional_autograd symm_mem quantized _quantized "
    "sparse inductor inductor_prims rngprims profiler mkl mkldnn onednn"
)
SERVERS = (
    "vllm _C _C_cache_ops _C_custom_ar _moe_C sgl_kernel sglang aiter fbgemm flash_attn xformers "
    "torchvision"
)
HEAD = "# What a copy for others keeps. tools/public_names.py writes it; edit the lists there.\n"


def ops() -> dict[str, set[str]]:
    """The ops of torch's own namespaces."""
    found: dict[str, set[str]] = {name: set() for name in NAMESPACES.split()}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace in found:
            found[namespace].add(name)
    for file in (ROOT / "src/foretrace").rglob("*"):
        if file.suffix in (".py", ".toml") and file != TARGET:
            names = rf"\b({SERVERS.replace(' ', '|')})::(\w+[a-z0-9_])"
            for namespace, name in re.findall(names, file.read_text(encoding="utf-8")):
                found.setdefault(namespace, set()).add(name)
    return found


def calls() -> set[str]:
    """Calls of CUDA's runtime and driver, as CUPTI numbers them."""
    include, found = Path(triton.__file__).parent / "backends/nvidia/include", set[str]()
    for name in ("cupti_runtime_cbid.h", "cupti_driver_cbid.h"):
        for call in re.findall(r"TRACE_CBID_(cu\w+) ", (include / name).read_text()):
            found.add(re.sub(r"(?:_v\d+|_pt[sd][sz]|_cudart)+$", "", call))
    return found


def classes(module: object, base: type) -> set[str]:
    """The classes of a module below `base`."""
    return {
        name for name, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, base)
    }


def kernels() -> set[str]:
    """Words of the kernels that the families decode, of their tables, and of ops."""
    found = set[str]()
    recordings = (ROOT / "src/foretrace/read/recordings").rglob("*.json.gz")
    for path in (each for each in recordings if ".why" not in str(each)):
        for name in foretrace.open(path).kernels["name"].unique().to_list():
            if families.decode(name).family not in USERS:
                found |= words_of(_spelled(name))
    folder = ROOT / "tests/work/families"
    for file in (*folder.glob("examples/*.jsonl"), *folder.glob("*_names.jsonl")):
        for line in filter(None, file.read_text(encoding="utf-8").splitlines()):
            name = json.loads(line)["name"]
            if families.decode(name).family not in USERS:
                found |= words_of(_spelled(name))
    for table in ("words.toml", "kernels.toml"):
        found |= words_of((ROOT / "src/foretrace/work/families" / table).read_text())
    return {word for word in found if len(word) > 1}


def main() -> None:
    """Write the file."""
    tables = {f"ops.{name}": each for name, each in ops().items()} | {
        "calls": calls(),
        "modules": classes(torch.nn, torch.nn.Module),
        "optimizers": classes(torch.optim, torch.optim.Optimizer),
    }
    of_ops = set[str]().union(*(words_of(name) for each in ops().values() for name in each))
    tables["kernel_words"] = kernels() - of_ops
    lines = [HEAD]
    for name, each in tables.items():
        text = textwrap.fill(" ".join(sorted(each)), 130, break_on_hyphens=False)
        lines.append(f"{json.dumps(name) if '.' in name else name} = '''\n{text}\n'''\n")
    TARGET.write_text("\n".join(lines), encoding="utf-8")
    print({name: len(each) for name, each in tables.items()}, TARGET.stat().st_size)


if __name__ == "__main__":
    main()
