"""What is no kernel of a library: memcpys, memsets, host calls."""

from __future__ import annotations

from functools import partial

from foretrace.work.families._parser import KernelId, NameParser, family, row_for, rx

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
