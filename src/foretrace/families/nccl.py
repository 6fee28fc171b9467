"""NCCL and RCCL collectives.

    ncclDevKernel_<Coll>[_<RedOp>_<type>][_<ALGO>_<PROTO>](…)        current
    ncclKernel_<Coll>_<ALGO>_<PROTO>_<RedOp>_<ctype>(…)              up to 2.18
    ncclSymkDevKernel_<Coll>_<algo>[_<red>_<type>]                   symmetric memory, 2.27 and
    later

**The name does not tell the algorithm or protocol that ran**: one kernel per collective and type
carries the others as a function table. Reliable are the collective, the type of reducing
collectives, and TREE or not. Size, type and group are in the event's own metadata. Only
symmetric-memory kernels name their algorithm truly.
"""

from __future__ import annotations

from foretrace.families._reading import Reading, rx, uncut
from foretrace.schema.kernel import Family, KernelId

COLLECTIVES = (
    "AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AllToAllv|Gather|Scatter"
)
_REDOP = "Sum|Prod|MinMax|Min|Max|PreMulSum|SumPostDiv"
_ALGO = "RING|TREE|COLLNET|COLLNET_DIRECT|COLLNET_CHAIN|NVLS|NVLS_TREE|PAT"
_PROTO = "LL128|LL|SIMPLE"
_NEW = (
    rf"(?:void )?nccl(?:Dev|Sh)Kernel(?:Debug)?_(?P<coll>{COLLECTIVES})(?:_(?P<redop>{_REDOP})_(?P<dtype>[a-z0-9]+))?"
    rf"(?:_(?P<algo>{_ALGO})_(?P<proto>{_PROTO}))?"
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
    rf"nccl(?:Symk|Sym)DevKernel_(?P<coll>{COLLECTIVES})_(?P<algo>[A-Za-z0-9]+(?:_[A-Z][A-Za-z0-9]*)*)"
    r"(?:_(?P<redop>[a-z]+)_(?P<dtype>[a-z0-9]+))?"
)
UNRELIABLE = "what the kernel was compiled for; another may have run inside it"


def decode(name: str) -> KernelId | None:
    if "nccl" not in name[:12] and not name.startswith("msccl"):
        return None
    if rx(r"ncclDevKernel(?:Debug)?_Generic").match(name):
        return _generic(name)
    for pattern, read in ((_NEW, _new), (_OLD, _old), (_SYMMETRIC, _symmetric), (_OLDEST, _oldest)):
        found = rx(pattern).match(uncut(name))
        if found:
            r = Reading(name, "nccl")
            r.note(name.partition("_")[0], "a device kernel of NCCL or RCCL", "documented")
            coll = found["coll"]
            p2p = coll == "SendRecv"
            r.put(coll, "op", "p2p" if p2p else "collective", "between GPUs", "documented")
            r.put(coll, "coll", coll, "the collective; reliable", "documented")
            read(r, found.groupdict() if uncut(name) == name else _firm(found.groupdict()))
            dtype = r.fields.get("dtype") or r.fields.get("name_dtype", "")
            return r.done("comms", f"nccl {coll} {dtype if 'Reduce' in coll else ''}".strip())
    return (
        Reading(name, "nccl").done("comms", "nccl")
        if rx(r"nccl\w*Kernel|msccl\w*Kernel").match(name)
        else None
    )


def _firm(found: dict[str, str]) -> dict[str, str]:
    """What a cut cannot have changed: the last words may be half ones (`int8` of `int8_t`)."""
    return found | {"redop": "", "dtype": "", "algo": found["algo"] if found.get("proto") else ""}


def _generic(name: str) -> KernelId:
    r = Reading(name, "nccl")
    r.note(name.partition("_")[0], "a device kernel of NCCL or RCCL", "documented")
    r.put("Generic", "op", "collective", "between GPUs", "documented")
    r.put(
        "Generic",
        "coll",
        None,
        "the name does not tell which collective; the event's metadata may",
        "documented",
    )
    r.put(
        "Generic",
        "generic",
        True,
        "one kernel for everything (RCCL, or NCCL's fallback)",
        "documented",
    )
    return r.done("comms", "nccl (generic)")


def _new(r: Reading, found: dict[str, str]) -> None:
    if found["redop"]:
        r.put(found["redop"], "name_redop", found["redop"], UNRELIABLE, "documented")
        r.put(
            found["dtype"],
            "dtype",
            found["dtype"],
            "element type; signed integers show as unsigned",
            "documented",
        )
    _algorithm(r, found)


def _old(r: Reading, found: dict[str, str]) -> None:
    r.put("ncclKernel_", "generation", "ncclKernel_ (NCCL <= 2.18)", "an older NCCL", "documented")
    _algorithm(r, found)
    if found["redop"]:
        r.put(found["redop"], "name_redop", found["redop"], UNRELIABLE, "documented")
        words = "element type; int8_t stands for bytes where nothing is reduced"
        r.put(found["dtype"], "name_dtype", found["dtype"], words, "documented")


def _oldest(r: Reading, found: dict[str, str]) -> None:
    r.put(found["algo"], "name_algo", found["algo"].upper(), UNRELIABLE, "inferred")
    if found["proto"]:
        r.put(found["proto"], "name_proto", found["proto"], UNRELIABLE, "inferred")
    r.put(found["redop"], "name_redop", found["redop"], UNRELIABLE, "inferred")
    r.put(found["dtype"], "name_dtype", found["dtype"], "element type", "inferred")


def _symmetric(r: Reading, found: dict[str, str]) -> None:
    r.put("Sym", "symmetric_memory", True, "works on symmetric memory", "documented")
    words = "the algorithm, truly (LL, LD/ST over NVLink, MC = multicast)"
    r.put(found["algo"], "algo", found["algo"], words, "documented")
    if found["redop"]:
        r.put(found["redop"], "redop", found["redop"], "the reduction", "documented")
        r.put(found["dtype"], "dtype", found["dtype"], "element type", "documented")


def _algorithm(r: Reading, found: dict[str, str]) -> None:
    if found["algo"]:
        r.put(found["algo"], "name_algo", found["algo"], UNRELIABLE, "documented")
        r.put(found["proto"], "name_proto", found["proto"], UNRELIABLE, "documented")
        r.put(
            found["proto"],
            "name_algo_proto_reliable",
            False,
            "the two words above prove nothing",
            "documented",
        )


FAMILY = Family(
    name="nccl",
    decode=decode,
    order=10,
    examples={
        "ncclDevKernel_AllReduce_Sum_f16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)": {
            "coll": "AllReduce",
            "dtype": "f16",
            "name_algo": "TREE",
            "name_algo_proto_reliable": False,
        },
        "ncclKernel_AllReduce_TREE_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)": {
            "name_dtype": "half",
            "name_redop": "Sum",
            "generation": "ncclKernel_ (NCCL <= 2.18)",
        },
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": {
            "op": "p2p",
            "coll": "SendRecv",
        },
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": {
            "generic": True,
            "coll": None,
        },
    },
)
