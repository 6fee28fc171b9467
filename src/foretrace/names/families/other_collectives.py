"""Collective libraries beside NCCL: RCCL's generic kernels, HCCL, oneCCL (Intel), MSCCL.

    rcclGenericKernel · hccl::AllReduce · oneccl_allreduce_kernel · msccl_kernel

The library and, where the name spells it out, the collective are literal. Nothing else is stated.
"""

from __future__ import annotations

from foretrace.names.families._parser import rx, word_set
from foretrace.schema.kernel import Family, KernelId, Part

_LIBRARY = r"(?:void )?(?P<lib>rccl|hccl|oneccl|msccl|ucc)(?=[A-Z_:]|$)"
_COLLECTIVE = (
    r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send_?recv|reduce|gather"
    r"|scatter|barrier"
)
_SPELLED = {
    "allreduce": "AllReduce",
    "allgather": "AllGather",
    "reducescatter": "ReduceScatter",
    "alltoall": "AllToAll",
}


def _decode(name: str) -> KernelId | None:
    match = rx(_LIBRARY).match(name[:400])
    if match is None:
        return None
    library = match["lib"]
    parts = [
        Part(match["lib"], "lib", "the collective library", "documented"),
        Part(match["lib"], "op", "a collective between devices", "documented"),
    ]
    fields: dict[str, object] = {"op": "collective", "lib": library}
    found = rx(_COLLECTIVE).search(name[:400], match.end())
    if found is not None:
        plain = found[0].replace("_", "").lower()
        fields["coll"] = _SPELLED.get(plain, plain.capitalize())
        parts.append(Part(found[0], "coll", "the collective", "inferred"))
    short = f"{library} {fields.get('coll', 'collective')}"
    return KernelId(name, short, "other_collectives", "comms", fields, tuple(parts))


FAMILY = Family("other_collectives", _decode, 60, word_set("lib coll"))
