"""Host calls: the CUDA runtime and driver, HIP, Level Zero. The field `role` says what for.

They run on the CPU. `cudaLaunchKernelExC` and `cuLaunchKernelEx` launch with attributes (clusters,
programmatic dependent launch). Triton and nvjet launch through the driver (`cuLaunchKernel…`): a
list of runtime calls alone lacks them. Which calls make the host wait is NVIDIA's documentation of
them; a long launch may also be one that waits for room in the queue.
"""

from __future__ import annotations

from functools import partial

from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx

# what the call is for, pattern of what follows cuda/hip/cu; the first that fits wins
CALLS = r"""
    graph launch                    GraphLaunch\w*
    launch                          (?:Ext)?(?:Module)?Launch(?:Cooperative)?\w{0,9}Kernel\w*|Launch
    memcpy                          Memcpy\w*
    memset                          Memset\w*
    sync                            (?:Stream|Device|Ctx|Event)Synchronize\w*
    stream wait                     StreamWaitEvent\w*
    pinned free                     FreeHost|HostFree|MemFreeHost
    free                            Free(?:Async|Array)?|MemFree\w*
    pinned alloc                    HostAlloc|MallocHost|HostMalloc|MemHostAlloc|MemAllocHost\w*
        |HostRegister\w*|MemHostRegister\w*
    alloc                           Malloc\w*|MemAlloc\w*
    occupancy query (host only)     Occupancy\w*
    function attribute (host only)  Func(?:Set|Get)Attribut\w*|FuncSetCacheConfig|KernelSetAttribute
        |FuncSetSharedMemConfig
    device query (host only)        (?:Get)?Device(?:Get|Prop)\w*|GetDevice\w*|SetDevice\w*
        |DeviceSet\w*|CtxGet\w*|CtxSet\w*
    event record                    EventRecord\w*
"""
# what a call of that purpose does, and when the host waits for it
WAITS = {
    "graph launch": "starts every kernel of a captured graph, and returns",
    "launch": "puts a kernel into the queue of a stream, and returns; it waits while that is full",
    "memcpy": "copies, and returns; it waits where the host's memory is pageable",
    "memcpy, waits": "copies, and waits for the end, except from device to device",
    "memset": "fills memory on a stream, and returns",
    "sync": "waits until the GPU has done what the device, the stream or the event holds",
    "stream wait": "makes a stream wait for an event; the host does not",
    "pinned free": "gives pinned memory of the host back; may wait for the GPU",
    "free": "gives memory back; cudaFree waits for the GPU, cudaFreeAsync does not",
    "pinned alloc": "takes memory of the host that the GPU can copy from; may wait for the GPU",
    "alloc": "takes memory of the GPU; may wait for it: PyTorch's allocator avoids the call",
    "occupancy query (host only)": "asks how many blocks of a kernel fit on an SM; never waits",
    "function attribute (host only)": "sets or reads a kernel's limits, such as shared memory",
    "device query (host only)": "reads or picks the device; never waits",
    "event record": "puts a mark into the queue of a stream, and returns",
}
# Calls that neither launch nor wait: explained, without a word of their own in `role`.
HOST_ONLY = r"""
    queries an event                        EventQuery|EventElapsedTime
    creates or destroys an event            EventCreate\w*|EventDestroy\w*
    queries whether a graph is captured     StreamIsCapturing|StreamGetCaptureInfo\w*
    captures a graph                        StreamBeginCapture\w*|StreamEndCapture\w*
        |ThreadExchange\w*
    builds a graph                          Graph\w*
    queries errors                          PeekAtLastError|GetLastError|GetError\w*
    queries a pointer                       PointerGetAttribut\w*
    manages a stream                        Stream\w*
    loads code                              Module\w*|Library\w*|Kernel\w*|Link\w*
    describes a tensor for TMA              TensorMap\w*
"""


DRIVER = (
    r"^cu(?:Launch|Mem|Stream|Event|Ctx|Module|Graph|Device|Func|Init|Occupancy|Pointer|TensorMap"
    r"|Kernel|Library|Get|Link|Multicast|Array|Tex|Surf|IpcGet|IpcOpen)\w*$"
)


def _decode(category: str, r: NameParser) -> KernelId | None:
    if len(r.name) > 80:
        return None
    call = rx(r"cuda|hip|cu").sub("", r.name, count=1)
    purpose = (row_for(CALLS, call) or ("",))[0]
    if category == "xpu":
        category = "xpu_driver" if r.name.startswith("ze") else "xpu_runtime"
        purpose = "launch" if "Launch" in r.name else ""
    purpose = "unknown API id" if r.name == "INVALID" else purpose
    r.put(r.name, "op", "host api", "a call on the CPU, not a kernel")
    r.put(r.name, "role", purpose, "{}")
    blocking = purpose == "memcpy" and not r.name.endswith(("Async", "Async_v2"))
    if meaning := WAITS.get(f"{purpose}, waits" if blocking else purpose):
        r.note(r.name, meaning)
    other = row_for(HOST_ONLY, call)
    if other and not purpose:
        r.note(r.name, f"{other[0]}; launches nothing")
    r.put(r.name, "cat", category, "the category a trace gives it")
    return r.done("other", r.name)


FAMILIES = tuple(
    family(f"{name}_api", partial(_decode, category), 8, states, "documented", hint=pattern)
    for name, category, states, pattern in (
        ("runtime", "cuda_runtime", "role cat", r"^(?:(?:cuda|hip)[A-Z]\w*|INVALID)$"),
        ("driver", "cuda_driver", "role", DRIVER),
        ("xpu", "xpu", "role", r"^(?:urEnqueue|ze)[A-Z]\w*$"),
    )
)
