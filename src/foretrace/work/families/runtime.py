"""What is no kernel of a library (memcpys, memsets, host calls), and collectives.

NCCL and RCCL collectives.

    ncclDevKernel_<Coll>[_<RedOp>_<type>][_<ALGO>_<PROTO>](…)    current
    ncclKernel_<Coll>_<ALGO>_<PROTO>_<RedOp>_<ctype>(…)          up to 2.18
    ncclSymkDevKernel_<Coll>_<algo>[_<red>_<type>]               symmetric memory, from 2.27 on

**The name does not tell the algorithm or protocol that ran**: one kernel per collective and type
carries the others as a function table. Reliable are the collective, the type of reducing
collectives, and TREE or not. Size, type and group are in the event's own metadata. Only
symmetric-memory kernels name the algorithm that ran.

Collective libraries beside NCCL: RCCL's generic kernels, HCCL, oneCCL (Intel), MSCCL. The library
and, where the name spells it out, the collective are literal. Nothing else is stated.

    rcclGenericKernel · hccl::AllReduce · oneccl_allreduce_kernel · msccl_kernel

PyTorch's collectives over symmetric memory: `multimem_all_reduce_kernel<T, bytes>`, ….
"""

from __future__ import annotations

from functools import partial

from foretrace.work.families._cpp import is_cut, row_for, rx, uncut
from foretrace.work.families._parser import NameParser, family
from foretrace.work.kernel import KernelId

# Memcpys and memsets: `Memcpy <kind> (<from> -> <to>)`, `Memset (<kind>)`, ROCm's helpers.
#
# A copy from or to Pageable memory is staged through a pinned buffer and usually blocks the host.
# PtoP is between GPUs. ROCm prints Host where CUDA tells Pinned from Pageable.

MEMORY = {
    "Pageable": "ordinary host memory: the copy is staged and usually blocks the host",
    "Pinned": "page-locked host memory",
}
_NAME = (
    r"^(?:(?P<rocm>__amd_rocclr_\w+)|Memset(?: \((?P<filled>[\w ]+)\))?"
    r"|Memcpy (?P<kind>[A-Z]to[A-Z])(?: \((?P<src>[\w ]+?) -> (?P<dst>[\w ]+?)\))?)$"
)


@family("memcpy_memset", 9, "op kind src dst", "documented", hint=_NAME)
def _decode_memory(r: NameParser) -> KernelId | None:
    if r["rocm"]:
        op, meaning = row_for("rocm_memory", r.name) or ("", "")
        r.put(r.name, "op", op, f"ROCm: a {meaning}")
        return r.done("copy", f"{op} (ROCm kernel)") if op else None
    if not r["kind"]:
        r.put("Memset", "op", "memset", "fills memory with a byte")
        r.put(r["filled"], "kind", r["filled"], "the memory filled")
        return r.done("copy", r.name)
    r.put("Memcpy", "op", "memcpy", "copies memory")
    known = row_for("memcpy", r["kind"])
    r.put(r["kind"], "kind", r["kind"], known[0] if known else "unknown direction")
    for field, side in (("src", "from"), ("dst", "to")):
        memory = MEMORY.get(r[field], f"{r[field].lower()} memory")
        r.put(r[field], field, r[field], f"{side} {memory}")
    return r.done("copy", r.name)


# Host calls: the CUDA runtime and driver, HIP, Level Zero. The field `role` says what for.
#
# They run on the CPU. `cudaLaunchKernelExC` and `cuLaunchKernelEx` launch with attributes
# (clusters, programmatic dependent launch). Triton and nvjet launch through the driver
# (`cuLaunchKernel…`): a list of runtime calls alone lacks them. Which calls make the host wait is
# NVIDIA's documentation of them; a long launch may also be one that waits for room in the queue.


def _decode_host(category: str, r: NameParser) -> KernelId | None:
    if len(r.name) > 80:
        return None
    call = rx(r"cuda|hip|cu").sub("", r.name, count=1)
    if category == "xpu":
        category = "xpu_driver" if r.name.startswith("ze") else "xpu_runtime"
        call = "Launch" if "Launch" in r.name else ""
    purpose, meaning = row_for("host_api", call) or ("", "")
    purpose = "unknown API id" if r.name == "INVALID" else purpose
    r.put(r.name, "op", "host api", "a call on the CPU, not a kernel")
    r.put(r.name, "role", purpose, "{}")
    if meaning:
        r.note(r.name, meaning)
    r.put(r.name, "cat", category, "the category a trace gives it")
    return r.done("other", r.name)


FAMILIES = tuple(
    family(f"{name}_api", 8, states, "documented", hint=pattern)(partial(_decode_host, category))
    for name, category, states, pattern in (
        ("runtime", "cuda_runtime", "role cat", r"^(?:(?:cuda|hip)[A-Z]\w*|INVALID)$"),
        (
            "driver",
            "cuda_driver",
            "role",
            r"^cu(?:Launch|Mem|Stream|Event|Ctx|Module|Graph|Device|Func|Init|Occupancy|Pointer"
            r"|TensorMap|Kernel|Library|Get|Link|Multicast|Array|Tex|Surf|IpcGet|IpcOpen)\w*$",
        ),
        ("xpu", "xpu", "role", r"^(?:urEnqueue|ze)[A-Z]\w*$"),
    )
)


COLLECTIVES = (
    "AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AllToAllv|Gather|Scatter"
)
_REDOP = "Sum|Prod|MinMax|Min|Max|PreMulSum|SumPostDiv"
_ALGO = "RING|TREE|COLLNET|COLLNET_DIRECT|COLLNET_CHAIN|NVLS|NVLS_TREE|PAT"
_PROTO = "LL128|LL|SIMPLE"
_NEW = (
    rf"(?:void )?nccl(?:Dev|Sh)Kernel(?:Debug)?_(?P<coll>{COLLECTIVES})"
    rf"(?:_(?P<name_redop>{_REDOP})_(?P<dtype>[a-z0-9]+))?"
    rf"(?:_(?P<name_algo>{_ALGO})_(?P<name_proto>{_PROTO}))?"
)
_OLD = (
    rf"(?P<generation>ncclKernel_)(?P<coll>{COLLECTIVES})_(?P<name_algo>{_ALGO})_"
    rf"(?P<name_proto>{_PROTO})(?:_(?P<name_redop>{_REDOP})_(?P<name_dtype>\w+))?"
)
_OLDEST = (
    rf"nccl(?P<coll>{COLLECTIVES})(?P<name_algo>Ring|Tree|CollNet)(?P<name_proto>LL128|LL)?Kernel_"
    r"(?P<name_redop>[a-z]+)_(?P<name_dtype>\w+)"
)
_SYMMETRIC = (
    rf"nccl(?P<symmetric_memory>Sym)k?DevKernel_(?P<coll>{COLLECTIVES})_"
    r"(?P<algo>[A-Za-z0-9]+(?:_[A-Z][A-Za-z0-9]*)*)(?:_(?P<redop>[a-z]+)_(?P<dtype>[a-z0-9]+))?"
)
_ELEMENTS = "element type; signed integers may show as unsigned"
_VALUES = {"generation": "ncclKernel_ (NCCL <= 2.18)", "symmetric_memory": True}
# What a cut may have changed: the last words may be half ones (`int8` of `int8_t`).
_SOFT = ("name_redop", "redop", "dtype", "name_dtype")


@family(
    "nccl",
    10,
    "coll dtype name_algo name_algo_proto_reliable name_dtype name_redop generation op generic",
    "documented",
    hint="^(?:(?:void )?nccl|msccl)",
)
def _nccl(r: NameParser) -> KernelId | None:
    r.note(r.name.partition("_")[0], "a device kernel of NCCL or RCCL")
    if rx(r"ncclDevKernel(?:Debug)?_Generic").match(r.name):
        r.put("Generic", "op", "collective", "between GPUs")
        meaning = "the name does not tell which collective; the event's metadata may"
        r.state("Generic", "coll", None, meaning)
        r.put("Generic", "generic", True, "one kernel for everything (RCCL, or NCCL's fallback)")
        return r.done("comms", "nccl (generic)")
    matches = (rx(each).match(uncut(r.name)) for each in (_NEW, _OLD, _SYMMETRIC, _OLDEST))
    found = next(filter(None, matches), None)
    if not found:
        return r.done("comms", "nccl") if rx(r"(?:nccl|msccl)\w*Kernel").match(r.name) else None
    coll, reduced = found["coll"], "Reduce" in found["coll"]
    r.put(coll, "op", "p2p" if coll == "SendRecv" else "collective", "between GPUs")
    r.put(coll, "coll", coll, "the collective; reliable")
    _fields(r, found.groupdict())
    return r.done("comms", f"nccl {coll}", (r.get("dtype") or r.get("name_dtype")) * reduced)


def _fields(r: NameParser, found: dict[str, str | None]) -> None:
    cut = is_cut(r.name)
    soft = (*_SOFT, *(() if found.get("name_proto") else ("name_algo", "algo"))) if cut else ()
    if not (found.get("name_algo") or "RING").isupper():
        r.certainty = "inferred"  # the oldest names
    for field, text in found.items():
        if text and field not in ("coll", *soft):
            value = text.upper() if field == "name_algo" else _VALUES.get(field, text)
            r.put(text, field, value, _ELEMENTS if field == "dtype" else "")
    if r.get("name_proto") and r.certainty == "documented":
        meaning = "the two words above prove nothing"
        r.put(r.get("name_proto"), "name_algo_proto_reliable", False, meaning)


_COLLECTIVE = (
    r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send_?recv|reduce|gather"
    r"|scatter|barrier"
)


@family(
    "other_collectives",
    60,
    "lib coll",
    "documented",
    hint=r"^(?:void )?(?P<lib>rccl|hccl|oneccl|msccl|ucc)(?=[A-Z_:]|$)",
)
def _other(r: NameParser) -> KernelId:
    r.put(r["lib"], "lib", r["lib"], "the collective library")
    r.put(r["lib"], "op", "collective", "a collective between devices")
    if found := rx(_COLLECTIVE).search(r.name, r.found.end(), 400):
        plain = found[0].replace("_", "").lower()
        row = row_for("collectives", plain)
        spelled = row[0] if row else plain.capitalize()
        r.put(found[0], "coll", spelled, certainty="inferred")
    return r.done("comms", f"{r['lib']} {'{coll}' if r.get('coll') else 'collective'}")


_SYMM_MEM = (
    r"(?P<multimem>multimem_)?(?:one_shot_|two_shot_)?(?P<coll>all_reduce|all_gather"
    r"|reduce_scatter|all_to_all)(?:_out|_inplace|_copy)?_kernel(?:_inplace)?"
)


@family("torch_symm_mem", 35, "coll dtype bytes_per_access", hint="shot_|multimem", base=_SYMM_MEM)
def _symm_mem(r: NameParser) -> KernelId | None:
    if not r.cpp.args:
        return None
    r.put(r.base, "op", "collective", "between GPUs")
    r.put(r.base, "coll", r["coll"].title().replace("_", ""))
    lib = "torch symmetric memory (multimem/NVLS)" if r["multimem"] else ""
    r.put(r.base, "lib", lib, "PyTorch's collectives over symmetric memory, with multicast")
    r.read(r.arg(0), "dtype", "element type: {}")
    r.read(r.arg(1), "bytes_per_access")
    return r.done("comms", "symm_mem {coll} {dtype}")
