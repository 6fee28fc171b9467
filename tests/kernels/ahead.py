"""Ahead-of-time compilation without a GPU: what a kernel variant takes of registers, stack and
shared memory.

Run as a script it compiles variants the package can launch, for every architecture, and prints one
JSON line each; the tests run it so, since compiling needs kernels that are not under the
interpreter, and a cache that is empty. `ahead.jsonl` keeps what the sample came to, with the digest
of the sources: they are compiled again when one of them changes, and in the full sweep. To write it:

    TRITON_CACHE_DIR=$(mktemp -d) TRITON_DUMP_PTXAS_LOG=1 python tests/kernels/ahead.py sample > tests/kernels/ahead.jsonl
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

# Shared memory a block can have, in bytes, by architecture (CUDA programming guide, technical
# specifications).
SHARED_LIMIT = {80: 166_912, 90: 232_448, 100: 232_448}

DEAR = ("gradient_tma_kernel", "whole_pingpong_kernel")

HERE = Path(__file__)
SOURCES = HERE.parents[2] / "src/foretrace/kernels"


def digest() -> str:
    """Of all that a compiled kernel depends on: its source, its variants, this file and Triton."""
    variants = (SOURCES / "glu.py", SOURCES / "tune.py", HERE)
    texts = [path.read_bytes() for path in (*sorted((SOURCES / "device").glob("*.py")), *variants)]
    return hashlib.sha256(b"\0".join([*texts, version("triton").encode()])).hexdigest()


def variants(arch: int) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """(name, kernel, constexprs in order, options) of everything that can be launched on `arch`."""
    from foretrace.kernels import ACTIVATIONS
    from foretrace.kernels.device import pointwise as p
    from foretrace.kernels.device.matmuls import (
        gate_up_kernel,
        gate_up_tma_kernel,
        gradient_tma_kernel,
        outer_kernel,
        split_kernel,
    )
    from foretrace.kernels.device.padding import pad_kernel
    from foretrace.kernels.tune import CANDIDATES

    plain = {"num_warps": 4, "enable_fp_fusion": True}
    yield "pad", pad_kernel, (2048,), {"num_warps": 4}
    for act in ACTIVATIONS:
        yield f"forward_flat {act}", p.forward_flat_kernel, (act, False, 8, 1024), plain
        yield f"backward_flat {act}", p.backward_flat_kernel, (act, False, 8, 1024), plain
    yield "forward_strided", p.forward_strided_kernel, ("gelu_tanh", False, 8, True, 1, 1024), plain
    yield "forward_packed", p.forward_packed_kernel, ("gelu_tanh", False, 8, 1024), plain
    yield "factors_packed", p.factors_packed_kernel, ("gelu_tanh", False, 8, 1024), plain
    yield "backward_packed", p.backward_packed_kernel, ("gelu_tanh", False, 8, 1024), plain
    yield (
        "backward_strided",
        p.backward_strided_kernel,
        ("gelu_tanh", False, 1, False, 64, 16),
        plain,
    )
    for depth in (16, 32):
        yield f"outer {depth}", outer_kernel, (8, False, 64, 128, depth), plain
    for part, rows in CANDIDATES.items():
        for _, _, (kind, t) in rows:
            if (kind == "tma" and arch < 90) or (kind == "pingpong" and arch != 90):
                continue
            tile = (t.bm, t.bn, t.bk)
            save = part == "gate_up_saving"
            if kind == "pingpong":
                yield f"{part} {t}", *_specialised(part, t)
            elif part == "gradient":
                yield (
                    f"{part} {t}",
                    gradient_tma_kernel,
                    ("gelu_tanh", False, *tile, t.group),
                    t.options(),
                )
            elif kind == "tma":
                fixed = ("gelu_tanh", save, False, False, *tile, t.group)
                yield f"{part} {t}", gate_up_tma_kernel, fixed, t.options()
            elif kind == "pointer":
                yield (
                    f"{part} {t}",
                    gate_up_kernel,
                    ("gelu_tanh", save, 8, False, *tile, t.group),
                    t.options(),
                )
            else:
                yield f"{part} {t}", split_kernel, (8, t.split, False, *tile), t.options()


def _specialised(part: str, t: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    from foretrace.kernels.device.pingpong import (
        gate_up_pingpong_kernel,
        gradient_pingpong_kernel,
        whole_pingpong_kernel,
    )
    from foretrace.kernels.device.specialised import options

    cut = (t.bm, t.bn, t.bk, t.group, t.stages, t.split)
    if part == "gradient":
        return gradient_pingpong_kernel, ("factors", *cut), options(t)
    kernel = whole_pingpong_kernel if part.startswith("whole") else gate_up_pingpong_kernel
    save = "factors" if part.endswith("_saving") else ""
    return kernel, ("gelu_tanh", save, *cut), options(t)


def _descriptors(constants: dict[str, Any]) -> dict[str, str]:
    """The descriptor types of a specialised kernel, by parameter, for its constexprs."""
    from triton.experimental.gluon import language as gl

    def of(*block: int) -> str:
        layout = gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16)
        return f"tensordesc<bf16{list(block)},{layout!r}>"

    bm, bn, bk = (constants[name] for name in ("BM", "BN", "BK"))
    if "RING" in constants:
        quarter = of(bm // 2, bn // 2)
        outer = dict.fromkeys(("gate", "up", "d_gate", "d_up"), quarter)
        return {"dy": of(bm, bk), "w": of(bk, bn), **outer}
    out = of(bm // 2 if constants["SAVE"] else bm, bn)
    outer = dict.fromkeys(("out", "left_out", "right_out", "y"), out)
    weights = {"w_gate": of(bn, bk), "w_up": of(bn, bk), "w_down": of(2 * bn, bk)}
    return {"x": of(bm, bk), "middle": of(bm, bk), **weights, **outer}


def _source(kernel: Any, signature: dict[str, str], constants: dict[str, Any]) -> Any:
    from triton.compiler import ASTSource

    if kernel.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        described = _descriptors(constants)
        kinds = {name: described.get(name, kind) for name, kind in signature.items()}
        return GluonASTSource(kernel, kinds, constants)
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, kind in enumerate(signature.values())
        if kind.startswith("*")
    }
    return ASTSource(kernel, signature, constants, aligned)


def usage(
    kernel: Any, fixed: tuple[Any, ...], options: dict[str, Any], arch: int
) -> dict[str, int]:
    """Registers, stack frame and spilled bytes per thread, and shared memory, of a variant compiled
    for `arch`.

    Triton prints the assembler's report when TRITON_DUMP_PTXAS_LOG is set, and compiles only what
    its cache does not have.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    signature, names = {}, [param.name for param in kernel.params]
    for param in kernel.params:
        pointer = {"partial": "*fp32", "arrived": "*i32", "counts": "*i32"}.get(param.name, "*bf16")
        signature[param.name] = (
            "constexpr" if param.is_constexpr else param.annotation_type or pointer
        )
    constants = dict(
        zip([name for name in names if signature[name] == "constexpr"], fixed, strict=True)
    )
    source = _source(kernel, signature, constants)
    with contextlib.redirect_stdout(io.StringIO()) as report:
        binary = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    text = report.getvalue()
    frame = re.search(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text
    )
    used = re.search(r"Used (\d+) registers", text)
    assert frame is not None, text
    assert used is not None, text
    spilled = int(frame[2]) + int(frame[3])
    return {
        "registers": int(used[1]),
        "stack": int(frame[1]),
        "spilled": spilled,
        "shared": binary.metadata.shared,
    }


def sample(arch: int) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """On Hopper, where registers and shared memory are short, the largest variant of every kernel,
    which saves what the gradient needs; not the two that take longest, whose parts the others have.
    Elsewhere the smallest matmul.
    """
    seen = set()
    for variant in sorted(variants(arch), key=_size, reverse=arch == 90):
        name, kernel, _, _ = variant
        left_out = kernel.__name__ in DEAR if arch == 90 else not name.startswith("down")
        if kernel in seen or left_out:
            continue
        seen.add(kernel)
        yield variant


def _size(variant: tuple[str, Any, tuple[Any, ...], dict[str, Any]]) -> tuple[int, bool, int]:
    """The elements of its tile, whether it saves, and its stages."""
    sides = re.findall(r"b[mn]=(\d+)", variant[0])
    return prod(map(int, sides)), "saving" in variant[0], variant[3].get("num_stages", 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({"sources": digest()}), flush=True)
    wanted = {"all": variants, "sample": sample}[sys.argv[1]]
    for arch in SHARED_LIMIT:
        for name, kernel, fixed, options in wanted(arch):
            used = usage(kernel, fixed, options, arch)
            print(json.dumps({"arch": arch, "name": name, **used}), flush=True)
