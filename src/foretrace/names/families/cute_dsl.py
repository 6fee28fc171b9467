"""CuTe DSL kernels, flash attention 4 among them.

    kernel_cutlass_kernel_<module><Class>_object_at__<arguments>_<n>
    kernel_cutlass_<function>_<arguments>_<n>

The DSL runs module path and class together, encodes the arguments' layouts and cuts the name. Only
the class, the module and the first pointer's type are reliable.
"""

from __future__ import annotations

import re

from foretrace.names.families import _words
from foretrace.names.families._matmul import WORDS, MatmulParser
from foretrace.names.families._parser import joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_NAME = (
    r"kernel_cutlass_(?P<function>[a-z][A-Za-z0-9]*)_(?P<module>[a-z_0-9]*)"
    r"(?P<class>[A-Z]\w*?)_object_at_"
)
_FUNCTION = (
    r"kernel_cutlass_(?P<function>\w+?)_(?=tensorptr|tensor\d|CopyAtom_|TiledMMA_|TiledCopy_|\d+$)"
)
_POINTER = r"tensorptr(bf16|f16|f32|f64|i8|i32|u8|f8E4M3FN|f8E5M2)"
FLOAT8 = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def class_of(name: str) -> re.Match[str] | None:
    """Module and class of a CuTe DSL name, for the libraries that are written in it."""
    return rx(_NAME).match(name[:600]) if name.startswith("kernel_cutlass_") else None


def _decode(name: str) -> KernelId | None:
    """Flash attention 4."""
    found = class_of(name)
    return _attention(name, found["class"]) if found and "Flash" in found["class"] else None


def _decode_user(name: str) -> KernelId | None:
    """Any other class or function."""
    if not name.startswith("kernel_cutlass_"):
        return None
    found = class_of(name)
    function = found or rx(_FUNCTION).match(name[:600])
    if not function:
        return None
    r = MatmulParser(name, "cute_dsl")
    r.put("kernel_cutlass", "op", "user CuTe DSL kernel", "written in the CuTe DSL")
    called = found["class"] if found else function["function"]
    if found:
        r.put(called, "class", called, "the Python class that holds the kernel")
    else:
        r.put(called, "function", called, "the Python function")
    put_dtype(r, name)
    short = joined("cute", _words.plain(called), r.get("dtype_in"))
    return r.done(_words.role(called), short)


def _attention(name: str, kernel: str) -> KernelId:
    r = MatmulParser(name, "flash_attention_4_cute")
    backward = "Backward" in kernel
    step = next((word for word in ("Preprocess", "Postprocess", "Combine") if word in kernel), "")
    way = f"sdpa_{'bwd' if backward else 'fwd'}{f'_{step.lower()}' if step else ''}"
    r.put(kernel, "class", kernel, "the Python class that holds the kernel")
    r.put(kernel, "op", "" if step == "Combine" else way, "fused attention, or a step of it")
    r.put("kernel_cutlass", "lib", "flash-attn 4 (CuTe DSL)", "flash attention 4")
    arch = rx(r"Sm(\d{2,3})").search(kernel)
    if arch:
        r.put_arch(arch[0], f"sm{arch[1]}")
    put_dtype(r, name)
    words = ("FA4", way.replace("_", " "), r.get("arch"), r.get("dtype_in"))
    return r.done("attention", joined(*words))


def put_dtype(r: MatmulParser, name: str) -> None:
    """The type of the first pointer, where the name states it."""
    pointer = rx(_POINTER).search(name)
    if pointer:
        dtype = FLOAT8.get(pointer[1]) or WORDS[pointer[1]]
        r.put(pointer[0], "dtype_in", dtype, "type of the first tensor: {}")


FAMILIES = (
    Family("flash_attention_4_cute", _decode, 15, word_set("op arch class dtype_in")),
    Family("cute_dsl", _decode_user, 16, word_set("class function dtype_in")),
)
