"""Host calls: the CUDA runtime and driver, HIP, Level Zero. The field `role` says what for.

They run on the CPU. `cudaLaunchKernelExC` and `cuLaunchKernelEx` launch with attributes (clusters,
programmatic dependent launch). Triton and nvjet launch through the driver (`cuLaunchKernel…`): a
list of runtime calls alone lacks them.
"""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, row_for, rx, word_set
from foretrace.schema.kernel import Family, KernelId

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
    r"cu(?:Launch|Mem|Stream|Event|Ctx|Module|Graph|Device|Func|Init|Occupancy|Pointer|TensorMap"
    r"|Kernel|Library|Get|Link|Multicast|Array|Tex|Surf|IpcGet|IpcOpen)\w*"
)


def _decode_runtime(name: str) -> KernelId | None:
    if name == "INVALID":
        return _done(name, "runtime_api", "unknown API id", "cuda_runtime")
    found = rx(r"(?:cuda|hip)([A-Z]\w*)").fullmatch(name)
    if not found or len(name) >= 80:
        return None
    return _done(name, "runtime_api", _purpose(found[1]), "cuda_runtime")


def _decode_driver(name: str) -> KernelId | None:
    if len(name) >= 80 or not rx(DRIVER).fullmatch(name):
        return None
    return _done(name, "driver_api", _purpose(name[2:]), "cuda_driver")


def _decode_xpu(name: str) -> KernelId | None:
    found = rx(r"(?:urEnqueue|ze)([A-Z]\w*)").fullmatch(name)
    if not found or len(name) > 80:
        return None
    category = "xpu_driver" if name.startswith("ze") else "xpu_runtime"
    return _done(name, "xpu_api", "launch" if "Launch" in name else "", category)


def _purpose(call: str) -> str:
    return (row_for(CALLS, call) or ("",))[0]


def _done(name: str, family: str, purpose: str, category: str) -> KernelId:
    r = NameParser(name, family, "documented")
    r.put(name, "op", "host api", "a call on the CPU, not a kernel")
    r.put(name, "role", purpose, purpose)
    call = rx(r"cuda|hip|cu").sub("", name, count=1)
    other = row_for(HOST_ONLY, call)
    if other and not purpose:
        r.note(name, f"{other[0]}; launches nothing")
    r.put(name, "cat", category, "the category a trace gives it")
    return r.done("other", name)


FAMILIES = (
    Family("runtime_api", _decode_runtime, 8, word_set("role cat")),
    Family("driver_api", _decode_driver, 8, word_set("role")),
    Family("xpu_api", _decode_xpu, 8, word_set("role")),
)
