"""Which host calls launch GPU work, and which wait for it: CUDA, HIP, SYCL and Level Zero."""

from __future__ import annotations

from foretrace.base.patterns import regex

_LAUNCH = regex(
    r"(?:cuda|cu|hip)\w{0,60}Launch(?!HostFunc)\w*|urEnqueueKernelLaunch\w*|zeCommandListAppendLaunch\w*"
)
_GRAPH = regex(r"(?:cuda|cu|hip)GraphLaunch\w*")
_WAIT = regex(
    r"(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx|Context)Synchronize\w*"
    r"|(?:cuda|hip)Memcpy(?:2D|3D|ToSymbol|FromSymbol|WithStream|Peer|DtoH|HtoD|DtoD)?(?:_v\d+)?"
    r"|cuMemcpy(?:DtoH|HtoD|DtoD|2D|3D|Peer)?(?:_v\d+)?"
    r"|(?:urQueueFinish|urEventWait|zeEventHostSynchronize|zeCommandQueueSynchronize)"
)
_COPY = regex(
    r"(?:cuda|cu|hip)(?:Memcpy|Memset)\w*|urEnqueue(?:USM|Mem)\w*|zeCommandListAppendMemory\w*"
)

_BEGINS = regex(r"(?:cuda|cu|hip)StreamBeginCapture\w*")
_ENDS = regex(r"(?:cuda|cu|hip)StreamEndCapture\w*")


def launches(name: str) -> bool:
    """Launches a kernel or a graph."""
    return _LAUNCH.fullmatch(name) is not None


def launches_graph(name: str) -> bool:
    """Launches a graph: many kernels at once."""
    return _GRAPH.fullmatch(name) is not None


def waits(name: str) -> bool:
    """Returns only when the GPU has caught up: a synchronize call or a synchronous copy."""
    return _WAIT.fullmatch(name) is not None


def copies(name: str) -> bool:
    """Copies or fills memory."""
    return _COPY.fullmatch(name) is not None


def begins_capture(name: str) -> bool:
    """Launches on this thread go into a graph from here on; nothing runs."""
    return _BEGINS.fullmatch(name) is not None


def ends_capture(name: str) -> bool:
    """The graph is complete; launches run again."""
    return _ENDS.fullmatch(name) is not None
