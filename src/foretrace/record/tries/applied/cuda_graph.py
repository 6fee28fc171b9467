"""Capture the function once as a CUDA graph and replay it: one launch for all its kernels.

Only for a function whose inputs stay where they are (`bench.py:setup`). The step of a script reads
new inputs each time; there `compile_reduce_overhead` is the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.applied._forward import ForwardSwitch
from foretrace.record.tries.session import Applied


class _CudaGraph(ForwardSwitch):
    whole = True

    def why_not(self) -> str:
        return "" if self.session.call is not None else "only for file.py:function"

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        graph: Any = torch.cuda.CUDAGraph()
        kept: list[Any] = []

        def replayed(*arguments: Any, **options: Any) -> Any:
            if not kept:
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    for _ in range(3):
                        forward(*arguments, **options)
                torch.cuda.current_stream().wait_stream(side)
                with torch.cuda.graph(graph):
                    kept.append(forward(*arguments, **options))
            graph.replay()
            return kept[0]

        return replayed


APPLIED = Applied(
    "cuda_graph",
    "CUDA graph",
    "with torch.cuda.graph(graph): out = step(); then graph.replay()",
    _CudaGraph,
    realises=("cuda_graph",),
    devices=("cuda",),
    group="compile",
)
