"""Let cuDNN time its algorithms for each shape of a convolution and keep the fastest."""

from __future__ import annotations

import torch

from foretrace.record.tries.session import Applied, Switch

WRITE = "torch.backends.cudnn.benchmark = True"


class _CudnnBenchmark(Switch):
    top = WRITE

    def why_not(self) -> str:
        if torch.backends.cudnn.benchmark:
            return "cuDNN is asked to choose already"
        return "" if self.session.modules(torch.nn.modules.conv._ConvNd) else "no convolutions"

    def turn(self, on: bool) -> None:
        torch.backends.cudnn.benchmark = on


APPLIED = Applied("cudnn_benchmark", "cuDNN benchmark", WRITE, _CudnnBenchmark, devices=("cuda",))
