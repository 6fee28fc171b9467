"""PyTorch's collectives over symmetric memory: `multimem_all_reduce_kernel<T, bytes>`, …."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_NAME = (
    r"(?P<multimem>multimem_)?(?:one_shot_|two_shot_)?(?P<coll>all_reduce|all_gather"
    r"|reduce_scatter|all_to_all)(?:_out|_inplace|_copy)?_kernel(?:_inplace)?"
)


def _decode(name: str) -> KernelId | None:
    if "_kernel" not in name[:120] or ("shot_" not in name[:120] and "multimem" not in name[:120]):
        return None
    cpp = _cpp.parse(name)
    found = rx(_NAME).fullmatch(cpp.base)
    if not found or not cpp.args:
        return None
    r = NameParser(name, "torch_symm_mem")
    coll = found["coll"].title().replace("_", "")
    r.put(cpp.base, "op", "collective", "between GPUs")
    r.put(cpp.base, "coll", coll, "the collective")
    lib = "torch symmetric memory (multimem/NVLS)" if found["multimem"] else ""
    r.put(cpp.base, "lib", lib, "PyTorch's collectives over symmetric memory, with multicast")
    dtype = _cpp.put_dtype(r, cpp.arg(0), "dtype", "element type: {}")
    size = _cpp.integer(cpp.arg(1))
    r.put(cpp.arg(1), "bytes_per_access", size, "{} bytes at a time")
    return r.done("comms", f"symm_mem {coll} {dtype or ''}".strip())


FAMILY = Family("torch_symm_mem", _decode, 35, word_set("coll dtype bytes_per_access"))
