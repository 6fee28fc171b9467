"""`Sketch`: a made-up trace in a few lines, for rules and fixes.

    (Sketch().step()
     .op("aten::linear > aten::mm", kernel(GEMM, 50), dims=[[64, 64], [64, 64]])
     .sync())

One host thread, one stream, times in microseconds. An op takes 10 us on the host; its work starts 5
us after the launch or when the stream is free, whichever is later. An op path nests its ops; shapes
belong to the innermost.
"""

from __future__ import annotations

import json
from typing import Any

Work = dict[str, Any]
# Names as PyTorch writes them, for the examples that need a kernel of some role.
_VECTORIZED = (
    "void at::native::vectorized_elementwise_kernel<8, {0}, std::array<char*, 3ul> "
    ">(int, {0}, std::array<char*, 3ul>)"
)
ADD = _VECTORIZED.format("at::native::CUDAFunctor_add<c10::BFloat16>")
MUL = _VECTORIZED.format(
    "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<float> >"
)
GELU = _VECTORIZED.format(
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}"
)
COPY = _VECTORIZED.format(
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::"
    "{lambda()#7}::operator()() const::{lambda(float)#1}"
)
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
LAUNCH_US = 5
NESTED_US = 0.1  # an op inside another begins this much later and ends this much earlier
_LAUNCHERS = {
    "kernel": "cudaLaunchKernel",
    "gpu_memcpy": "cudaMemcpyAsync",
    "gpu_memset": "cudaMemsetAsync",
}


def kernel(name: str, us: float, **args: Any) -> Work:
    """A kernel; `args` are what the profiler writes beside it (`registers_per_thread` stands for
    `registers per thread`).
    """
    return {
        "cat": "kernel",
        "name": name,
        "us": us,
        "args": {key.replace("_", " "): value for key, value in args.items()},
    }


def memcpy(name: str, us: float, size: int) -> Work:
    return {"cat": "gpu_memcpy", "name": name, "us": us, "args": {"bytes": size}}


def memset(us: float, size: int = 4) -> Work:
    return {"cat": "gpu_memset", "name": "Memset (Device)", "us": us, "args": {"bytes": size}}


class Sketch:
    """Collects events; `document` closes what is open and returns the Kineto document."""

    def __init__(
        self, device: str = "NVIDIA H200", compute: tuple[int, int] = (9, 0), sms: int = 132
    ) -> None:
        properties = {
            "id": 0,
            "name": device,
            "computeMajor": compute[0],
            "computeMinor": compute[1],
            "numSms": sms,
        }
        self.header = {
            "schemaVersion": 1,
            "deviceProperties": [properties],
            "baseTimeNanoseconds": 0,
        }
        self.events: list[dict[str, Any]] = []
        self.now = 1000.0
        self.gpu_free = 0.0
        self.correlation = 0
        self.steps = 0
        self._open: list[dict[str, Any]] = []

    def step(self) -> Sketch:
        """The next step; it ends where the one after it begins, or at the end."""
        self._close()
        self.steps += 1
        return self.region(f"ProfilerStep#{self.steps}")

    def region(self, name: str) -> Sketch:
        """A `record_function` range until the end of the step."""
        self._open.append(self._add("user_annotation", name, self.now, 0.0))
        return self

    def op(
        self,
        path: str,
        *work: Work,
        us: float = 10,
        dims: Any = None,
        types: Any = None,
        strides: Any = None,
        concrete: Any = None,
    ) -> Sketch:
        """Nested ops, `a > b > c`, the innermost of which launches the work. Types default to bf16
        for every shape.
        """
        names = path.split(" > ")
        given = {
            "Input Dims": dims,
            "Input type": types
            or (dims and ["c10::BFloat16" if dim else "Scalar" for dim in dims]),
            "Input Strides": strides,
            "Concrete Inputs": concrete,
        }
        for depth, name in enumerate(names):
            args = (
                {key: value for key, value in given.items() if value is not None}
                if depth == len(names) - 1
                else {}
            )
            self._add(
                "cpu_op", name, self.now + depth * NESTED_US, us - 2 * depth * NESTED_US, args
            )
        end = self.now + us
        for place, piece in enumerate(work):
            self.now += us / (len(work) + 1) if place == 0 else us / (2 * len(work) + 2)
            self._launch(piece)
        self.now = end
        return self

    def graph(self, *work: Work, us: float = 10) -> Sketch:
        """One graph launch that carries all this work."""
        self.correlation += 1
        self._add(
            "cuda_runtime", "cudaGraphLaunch", self.now, us, {"correlation": self.correlation}
        )
        for piece in work:
            self._run(piece, self.correlation)
        self.now += us
        return self

    def stray(self, piece: Work) -> Sketch:
        """GPU work whose launch lies before the recording."""
        self._run(piece, 900_000 + len(self.events))
        return self

    def sync(self, name: str = "cudaDeviceSynchronize", inside: str = "") -> Sketch:
        """The host waits until the GPU has run dry, and 2 us more; `inside` is the op that makes it
        wait.
        """
        until = max(self.gpu_free, self.now) + 2
        if inside:
            self._add("cpu_op", inside, self.now, until - self.now)
        self._add(
            "cuda_runtime",
            name,
            self.now,
            until - self.now,
            {"correlation": 800_000 + len(self.events)},
        )
        self.now = until
        return self

    def host(self, kind: str, name: str, us: float) -> Sketch:
        """Any host range without GPU work."""
        self._add(kind, name, self.now, us)
        self.now += us
        return self

    def pause(self, us: float) -> Sketch:
        """The host does nothing that the profiler sees."""
        self.now += us
        return self

    def document(self) -> dict[str, Any]:
        self._close()
        return self.header | {"traceEvents": self.events}

    def bytes(self) -> bytes:
        return json.dumps(self.document()).encode()

    def _close(self) -> None:
        for event in self._open:
            event["dur"] = round(self.now - event["ts"], 3)
        self._open = []

    def _launch(self, piece: Work) -> None:
        self.correlation += 1
        self._add(
            "cuda_runtime", _LAUNCHERS[piece["cat"]], self.now, 1, {"correlation": self.correlation}
        )
        self._run(piece, self.correlation)

    def _run(self, piece: Work, correlation: int) -> None:
        start = max(self.now + LAUNCH_US, self.gpu_free)
        self._add(
            piece["cat"],
            piece["name"],
            start,
            piece["us"],
            {"device": 0, "stream": 7, "correlation": correlation} | piece["args"],
            pid=0,
            tid=7,
        )
        self.gpu_free = start + piece["us"]

    def _add(
        self,
        cat: str,
        name: str,
        ts: float,
        us: float,
        args: dict[str, Any] | None = None,
        pid: int = 100,
        tid: int = 100,
    ) -> dict[str, Any]:
        event = {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": round(ts, 3),
            "dur": round(us, 3),
        }
        self.events.append(event | ({"args": args} if args else {}))
        return self.events[-1]
