"""NCCL and RCCL collectives.

    ncclDevKernel_<Coll>[_<RedOp>_<type>][_<ALGO>_<PROTO>](…)    current
    ncclKernel_<Coll>_<ALGO>_<PROTO>_<RedOp>_<ctype>(…)          up to 2.18
    ncclSymkDevKernel_<Coll>_<algo>[_<red>_<type>]               symmetric memory, from 2.27 on

**The name does not tell the algorithm or protocol that ran**: one kernel per collective and type
carries the others as a function table. Reliable are the collective, the type of reducing
collectives, and TREE or not. Size, type and group are in the event's own metadata. Only
symmetric-memory kernels name the algorithm that ran.
"""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import is_cut, rx, uncut
from foretrace.schema.kernel import KernelId

COLLECTIVES = (
    "AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AllToAllv|Gather|Scatter"
)
_REDOP = "Sum|Prod|MinMax|Min|Max|PreMulSum|SumPostDiv"
_ALGO = "RING|TREE|COLLNET|COLLNET_DIRECT|COLLNET_CHAIN|NVLS|NVLS_TREE|PAT"
_PROTO = "LL128|LL|SIMPLE"
_NEW = (
    rf"(?:void )?nccl(?:Dev|Sh)Kernel(?:Debug)?_(?P<coll>{COLLECTIVES})"
    rf"(?:_(?P<redop>{_REDOP})_(?P<dtype>[a-z0-9]+))?(?:_(?P<algo>{_ALGO})_(?P<proto>{_PROTO}))?"
)
_OLD = (
    rf"ncclKernel_(?P<coll>{COLLECTIVES})_(?P<algo>{_ALGO})_(?P<proto>{_PROTO})"
    rf"(?:_(?P<redop>{_REDOP})_(?P<dtype>\w+))?"
)
_OLDEST = (
    rf"nccl(?P<coll>{COLLECTIVES})(?P<algo>Ring|Tree|CollNet)(?P<proto>LL128|LL)?Kernel_"
    r"(?P<redop>[a-z]+)_(?P<dtype>\w+)"
)
_SYMMETRIC = (
    rf"nccl(?:Symk|Sym)DevKernel_(?P<coll>{COLLECTIVES})_"
    r"(?P<algo>[A-Za-z0-9]+(?:_[A-Z][A-Za-z0-9]*)*)(?:_(?P<redop>[a-z]+)_(?P<dtype>[a-z0-9]+))?"
)
UNRELIABLE = "what the kernel was compiled for; another may have run inside it"


def _decode(r: NameParser) -> KernelId | None:
    r.note(r.name.partition("_")[0], "a device kernel of NCCL or RCCL")
    if rx(r"ncclDevKernel(?:Debug)?_Generic").match(r.name):
        return _generic(r)
    for pattern, read in ((_NEW, _new), (_OLD, _old), (_SYMMETRIC, _symmetric), (_OLDEST, _oldest)):
        if found := rx(pattern).match(uncut(r.name)):
            coll = found["coll"]
            r.put(coll, "op", "p2p" if coll == "SendRecv" else "collective", "between GPUs")
            r.put(coll, "coll", coll, "the collective; reliable")
            read(r, _firm(found.groupdict()) if is_cut(r.name) else found.groupdict())
            dtype = r.get("dtype") or r.get("name_dtype")
            return r.done("comms", f"nccl {coll}", dtype if "Reduce" in coll else "")
    return r.done("comms", "nccl") if rx(r"(?:nccl|msccl)\w*Kernel").match(r.name) else None


def _firm(found: dict[str, str]) -> dict[str, str]:
    """What a cut cannot have changed: the last words may be half ones (`int8` of `int8_t`)."""
    return found | {"redop": "", "dtype": "", "algo": found["algo"] if found.get("proto") else ""}


def _generic(r: NameParser) -> KernelId:
    r.put("Generic", "op", "collective", "between GPUs")
    meaning = "the name does not tell which collective; the event's metadata may"
    r.state("Generic", "coll", None, meaning)
    r.put("Generic", "generic", True, "one kernel for everything (RCCL, or NCCL's fallback)")
    return r.done("comms", "nccl (generic)")


def _new(r: NameParser, found: dict[str, str]) -> None:
    r.read(found["redop"], "name_redop")
    words = "element type; signed integers show as unsigned"
    r.put(found["dtype"], "dtype", found["dtype"], words)
    _algorithm(r, found)


def _old(r: NameParser, found: dict[str, str]) -> None:
    r.put("ncclKernel_", "generation", "ncclKernel_ (NCCL <= 2.18)", "an older NCCL")
    _algorithm(r, found)
    r.read(found["redop"], "name_redop")
    words = "element type; int8_t stands for bytes where nothing is reduced"
    r.put(found["dtype"], "name_dtype", found["dtype"], words)


def _oldest(r: NameParser, found: dict[str, str]) -> None:
    r.certainty = "inferred"
    r.put(found["algo"], "name_algo", found["algo"].upper(), UNRELIABLE)
    r.put(found["proto"], "name_proto", found["proto"], UNRELIABLE)
    r.read(found["redop"], "name_redop")
    r.put(found["dtype"], "name_dtype", found["dtype"], "element type")


def _symmetric(r: NameParser, found: dict[str, str]) -> None:
    r.put("Sym", "symmetric_memory", True, "works on symmetric memory")
    words = "the algorithm, truly (LL, LD/ST over NVLink, MC = multicast)"
    r.put(found["algo"], "algo", found["algo"], words)
    r.read(found["redop"], "redop")
    r.put(found["dtype"], "dtype", found["dtype"], "element type")


def _algorithm(r: NameParser, found: dict[str, str]) -> None:
    if found["algo"]:
        r.put(found["algo"], "name_algo", found["algo"], UNRELIABLE)
        r.put(found["proto"], "name_proto", found["proto"], UNRELIABLE)
        meaning = "the two words above prove nothing"
        r.put(found["proto"], "name_algo_proto_reliable", False, meaning)


_STATES = """
    coll dtype name_algo name_algo_proto_reliable name_dtype name_redop generation op generic
"""
FAMILY = family("nccl", _decode, 10, _STATES, "documented", hint="^(?:(?:void )?nccl|msccl)")
