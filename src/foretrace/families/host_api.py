"""Host calls: the CUDA runtime and driver, HIP, Level Zero. They run on the CPU; the field `role`
says what for.

`cudaLaunchKernelExC` and `cuLaunchKernelEx` launch with attributes (clusters, programmatic
dependent launch). Triton and nvjet launch through the driver (`cuLaunchKernel…`): whoever looks at
the runtime alone misses them.
"""

from __future__ import annotations

from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

# what follows cuda/hip/cu -> what the call is for; the first that fits wins
CALLS = (
    (r"GraphLaunch\w*", "graph launch"),
    (r"(?:Ext)?(?:Module)?Launch(?:Cooperative)?\w*Kernel\w*|Launch", "launch"),
    (r"Memcpy\w*", "memcpy"),
    (r"Memset\w*", "memset"),
    (r"(?:Stream|Device|Ctx|Event)Synchronize\w*", "sync"),
    (r"StreamWaitEvent\w*", "stream wait"),
    (r"FreeHost|HostFree|MemFreeHost", "pinned free"),
    (r"Free(?:Async|Array)?|MemFree\w*", "free"),
    (
        r"HostAlloc|MallocHost|HostMalloc|MemHostAlloc|MemAllocHost\w*|HostRegister\w*|MemHostRegister\w*",
        "pinned alloc",
    ),
    (r"Malloc\w*|MemAlloc\w*", "alloc"),
    (r"Occupancy\w*", "occupancy query (host only)"),
    (
        r"Func(?:Set|Get)Attribut\w*|FuncSetCacheConfig|KernelSetAttribute|FuncSetSharedMemConfig",
        "function attribute (host only)",
    ),
    (
        r"(?:Get)?Device(?:Get|Prop)\w*|GetDevice\w*|SetDevice\w*|DeviceSet\w*|CtxGet\w*|CtxSet\w*",
        "device query (host only)",
    ),
    (r"EventRecord\w*", "event record"),
)
# Calls that neither launch nor wait: explained, without a word of their own in `role`.
HOST_ONLY = (
    (r"EventQuery|EventElapsedTime", "asks about an event"),
    (r"EventCreate\w*|EventDestroy\w*", "makes or drops an event"),
    (r"StreamIsCapturing|StreamGetCaptureInfo\w*", "asks whether a graph is being captured"),
    (r"StreamBeginCapture\w*|StreamEndCapture\w*|ThreadExchange\w*", "captures a graph"),
    (r"Graph\w*", "builds a graph"),
    (r"PeekAtLastError|GetLastError|GetError\w*", "asks for errors"),
    (r"PointerGetAttribut\w*", "asks about a pointer"),
    (r"Stream\w*", "manages a stream"),
    (r"Module\w*|Library\w*|Kernel\w*|Link\w*", "loads code"),
    (r"TensorMap\w*", "describes a tensor for TMA"),
)
DRIVER = (
    r"cu(?:Launch|Mem|Stream|Event|Ctx|Module|Graph|Device|Func|Init|Occupancy|Pointer|TensorMap|Kernel|Library|Get|Link|"
    r"Multicast|Array|Tex|Surf|IpcGet|IpcOpen)\w*"
)


def decode_runtime(name: str) -> KernelId | None:
    if name == "INVALID":
        return _done(name, "runtime_api", "unknown API id", "cuda_runtime")
    found = rx(r"(?:cuda|hip)([A-Z]\w*)").fullmatch(name)
    return (
        _done(name, "runtime_api", _purpose(found[1]), "cuda_runtime")
        if found and len(name) < 80
        else None
    )


def decode_driver(name: str) -> KernelId | None:
    found = rx(DRIVER).fullmatch(name)
    return (
        _done(name, "driver_api", _purpose(name[2:]), "cuda_driver")
        if found and len(name) < 80
        else None
    )


def decode_xpu(name: str) -> KernelId | None:
    found = rx(r"(?:urEnqueue|ze)([A-Z]\w*)").fullmatch(name)
    if not found or len(name) > 80:
        return None
    launch = "Launch" in name
    return _done(
        name,
        "xpu_api",
        "launch" if launch else "",
        "xpu_driver" if name.startswith("ze") else "xpu_runtime",
    )


def _purpose(call: str) -> str:
    return next((purpose for pattern, purpose in CALLS if rx(pattern).fullmatch(call)), "")


def _done(name: str, family: str, purpose: str, category: str) -> KernelId:
    r = NameParser(name, family, "documented")
    r.put(name, "op", "host api", "a call on the CPU, not a kernel")
    r.put(name, "role", purpose, purpose)
    call = rx(r"cuda|hip|cu").sub("", name, count=1)
    other = next((words for pattern, words in HOST_ONLY if rx(pattern).fullmatch(call)), "")
    if other and not purpose:
        r.note(name, f"{other}; launches nothing")
    r.put(name, "cat", category, "the category a trace gives it")
    return r.done("other", name)


FAMILIES = (
    Family(name="runtime_api", decode=decode_runtime, order=8),
    Family(name="driver_api", decode=decode_driver, order=8),
    Family(name="xpu_api", decode=decode_xpu, order=8),
)
