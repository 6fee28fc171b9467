"""CuTe DSL kernels, flash attention 4 among them.

    kernel_cutlass_kernel_<module><Class>_object_at__<arguments>_<n>
    kernel_cutlass_<function>_<arguments>_<n>

The DSL runs module path and class together, encodes the arguments' layouts and cuts the name. Only
the class, the module and the first pointer's type are reliable.

Quack: norms, softmax, cross entropy and matmuls written in the CuTe DSL.

    kernel_cutlass_kernel_quack<module><Class>[Sm<chip>]_object_at__<arguments>_<n>

`GemmGated` applies a gated activation (SwiGLU and its kin) to the matmul, `GemmDGated` its
gradient, `GemmAct` and `GemmDAct` a plain activation. Which activation ran is not in the name.
"""

from __future__ import annotations

import re

from foretrace.work.families import _words
from foretrace.work.families._parser import WORDS, KernelId, NameParser, family, row_for, rx

_NAME = (
    r"kernel_cutlass_(?P<function>[a-z][A-Za-z0-9]*)_(?P<module>[a-z_0-9]*)"
    r"(?P<class>[A-Z]\w*?)_object_at_"
)
_FUNCTION = (
    r"kernel_cutlass_(?P<function>\w+?)_(?=tensorptr|tensor\d|CopyAtom_|TiledMMA_|TiledCopy_|\d+$)"
)


def class_of(name: str) -> re.Match[str] | None:
    """Module and class of a CuTe DSL name, for the libraries that are written in it."""
    return rx(_NAME).match(name[:600]) if name.startswith("kernel_cutlass_") else None


@family("cute_dsl", 16, "class function dtype_in", hint="^kernel_cutlass_")
def _decode_user(r: NameParser) -> KernelId | None:
    """Any other class or function."""
    found = class_of(r.name)
    function = found or rx(_FUNCTION).match(r.name[:600])
    if not function:
        return None
    r.put("kernel_cutlass", "op", "user CuTe DSL kernel", "written in the CuTe DSL")
    called = found["class"] if found else function["function"]
    r.read(called if found else "", "class")
    r.read("" if found else called, "function", "the Python function")
    put_dtype(r)
    return r.done(_words.role(called), "cute", _words.plain(called), r.get("dtype_in"))


@family("flash_attention_4_cute", 15, "op arch class dtype_in", hint="^kernel_cutlass_")
def _attention(r: NameParser) -> KernelId | None:
    """Flash attention 4."""
    found = class_of(r.name)
    kernel = found["class"] if found else ""
    if "Flash" not in kernel:
        return None
    backward = "Backward" in kernel
    step = next((word for word in ("Preprocess", "Postprocess", "Combine") if word in kernel), "")
    way = f"sdpa_{'bwd' if backward else 'fwd'}{f'_{step.lower()}' if step else ''}"
    r.read(kernel, "class")
    r.put(kernel, "op", "" if step == "Combine" else way, "fused attention, or a step of it")
    r.put("kernel_cutlass", "lib", "flash-attn 4 (CuTe DSL)", "flash attention 4")
    if arch := rx(r"Sm\d{2,3}").search(kernel):
        r.put_arch(arch[0])
    put_dtype(r)
    return r.done("attention", f"FA4 {way.replace('_', ' ')} {{arch}} {{dtype_in}}")


def put_dtype(r: NameParser) -> None:
    """The type of the first pointer, where the name states it."""
    if pointer := rx(r"tensorptr(bf16|f16|f32|f64|i8|i32|u8|f8E4M3FN|f8E5M2)").search(r.name):
        dtype = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}.get(pointer[1]) or WORDS[pointer[1]]
        r.put(pointer[0], "dtype_in", dtype, "type of the first tensor: {}")


@family("quack", 15, "lib class op epilogue arch dtype_in", hint="^kernel_cutlass_")
def _quack(r: NameParser) -> KernelId | None:
    found = class_of(r.name)
    if not found or not found["module"].startswith("quack"):
        return None
    called = found["class"]
    chip = rx(r"Sm\d{2,3}$").search(called)
    plain = called[: chip.start()] if chip else called
    row = row_for("quack", plain) or (_words.role(plain), "", _words.plain(plain), "")
    role, op, short, end = row
    r.put("quack", "lib", "Quack", "Quack, in the CuTe DSL")
    r.read(called, "class")
    r.put(called, "op", op, f"{short}, by the name of the class")
    r.put(called, "epilogue", [end] if end else "", "applied to the matmul before it is written")
    r.put_arch(chip[0] if chip else "")
    put_dtype(r)
    return r.done(role, "quack", short, r.get("arch"), r.get("dtype_in"))
