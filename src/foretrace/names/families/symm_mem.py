"""PyTorch's collectives over symmetric memory: `multimem_all_reduce_kernel<T, bytes>`, …."""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, family
from foretrace.schema.kernel import KernelId

_NAME = (
    r"(?P<multimem>multimem_)?(?:one_shot_|two_shot_)?(?P<coll>all_reduce|all_gather"
    r"|reduce_scatter|all_to_all)(?:_out|_inplace|_copy)?_kernel(?:_inplace)?"
)


def _decode(r: NameParser) -> KernelId | None:
    if not r.cpp.args:
        return None
    r.put(r.base, "op", "collective", "between GPUs")
    r.put(r.base, "coll", r["coll"].title().replace("_", ""))
    lib = "torch symmetric memory (multimem/NVLS)" if r["multimem"] else ""
    r.put(r.base, "lib", lib, "PyTorch's collectives over symmetric memory, with multicast")
    r.read(r.arg(0), "dtype", "element type: {}")
    r.read(r.arg(1), "bytes_per_access")
    return r.done("comms", "symm_mem {coll} {dtype}")


_STATES = "coll dtype bytes_per_access"
FAMILY = family("torch_symm_mem", _decode, 35, _STATES, hint="shot_|multimem", base=_NAME)
