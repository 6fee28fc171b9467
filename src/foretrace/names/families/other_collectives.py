"""Collective libraries beside NCCL: RCCL's generic kernels, HCCL, oneCCL (Intel), MSCCL.

    rcclGenericKernel · hccl::AllReduce · oneccl_allreduce_kernel · msccl_kernel

The library and, where the name spells it out, the collective are literal. Nothing else is stated.
"""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import rx
from foretrace.schema.kernel import KernelId

_LIBRARY = r"^(?:void )?(?P<lib>rccl|hccl|oneccl|msccl|ucc)(?=[A-Z_:]|$)"
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


def _decode(r: NameParser) -> KernelId:
    r.put(r["lib"], "lib", r["lib"], "the collective library")
    r.put(r["lib"], "op", "collective", "a collective between devices")
    if found := rx(_COLLECTIVE).search(r.name, r.found.end(), 400):
        plain = found[0].replace("_", "").lower()
        r.put(found[0], "coll", _SPELLED.get(plain, plain.capitalize()), certainty="inferred")
    return r.done("comms", f"{r['lib']} {'{coll}' if r.get('coll') else 'collective'}")


FAMILY = family("other_collectives", _decode, 60, "lib coll", "documented", hint=_LIBRARY)
