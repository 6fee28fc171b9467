"""What the same operations run on: other types, layouts and algorithms, more cores and segments."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch

from foretrace.record.profiling.patches import ModuleHook
from foretrace.record.profiling.run_record import CORES
from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import GPU, ForwardSwitch, Switch

CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


class _Autocast(ForwardSwitch):
    """Run the forward pass under bf16 autocast.

    Its outputs are float32 again, so the loss is too.
    """

    name, title = "autocast", "bf16 autocast"
    write = 'with torch.autocast("cuda", torch.bfloat16): out = model(x)'
    realises, tolerance = ("autocast", "attention_dtype"), 1e-2

    def why_not(self) -> str:
        kinds = {each.dtype for each in self.session.parameters}
        if kinds and torch.float32 not in kinds:
            return "the parameters are not float32"
        return "the script uses autocast already" if self.session.counts["autocast"] else ""

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        device = self.session.device

        def cast(*arguments: Any, **options: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                return _whole(forward(*arguments, **options))

        return cast


def _whole(result: Any) -> Any:
    """The same with float32 in the place of bf16."""
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype == torch.bfloat16 else result
    if isinstance(result, dict):
        for key in result:
            result[key] = _whole(result[key])
        return result
    if type(result) in (list, tuple):
        return type(result)(_whole(each) for each in result)
    return result


class _Tf32(Switch):
    """Let float32 matmuls and convolutions run on tensor cores, with 10 bits of the fraction."""

    name, title = "tf32", "TF32 matmuls"
    top = write = 'torch.set_float32_matmul_precision("high")'
    realises, tolerance, devices = ("tf32",), 1e-2, GPU
    _before: tuple[str, bool] | None = None

    def why_not(self) -> str:
        exact = self.session.modules(*CONVOLUTIONS) and not torch.backends.cudnn.allow_tf32
        if torch.get_float32_matmul_precision() != "highest" and not exact:
            return "float32 matmuls use tensor cores already"
        kinds = {each.dtype for each in self.session.parameters}
        return "" if not kinds or torch.float32 in kinds else "the parameters are not float32"

    def turn(self, on: bool) -> None:
        if self._before is None:
            self._before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
            # a script may turn them off in every step
            if self.session.outermost is not None:
                self.session.outermost.register_forward_pre_hook(ModuleHook(self._again))
        super().turn(on)
        self._set(*("high", True) if on else self._before)

    def _again(self, module: object, given: object) -> None:
        if self.on:
            self._set("high", True)

    def _set(self, precision: str, allowed: bool) -> None:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = allowed


class _ChannelsLast(Switch):
    """Keep convolution weights and inputs in channels_last, the layout that tensor cores read."""

    name, title, fresh = "channels_last", "channels_last", True
    write, realises = "model.to(memory_format=torch.channels_last)", ("channels_last",)

    def why_not(self) -> str:
        found = self.session.modules(torch.nn.Conv2d, torch.nn.ConvTranspose2d)
        wide = [each.weight for each in found if min(each.weight.shape[:2]) > 1]
        if wide and all(each.is_contiguous(memory_format=torch.channels_last) for each in wide):
            return "the weights are in channels_last already"
        return "" if found else "no convolutions"

    def turn(self, on: bool) -> None:
        module = self.session.outermost
        if on and module is not None:
            module.to(memory_format=torch.channels_last)
            module.register_forward_pre_hook(
                lambda module, inputs: tuple(
                    each.contiguous(memory_format=torch.channels_last)
                    if isinstance(each, torch.Tensor) and each.dim() == 4
                    else each
                    for each in inputs
                )
            )

    def edits(self) -> list[Edit]:
        return self.after("{name}.to(memory_format=torch.channels_last)")


class _CudnnBenchmark(Switch):
    """Let cuDNN time its algorithms for each shape of a convolution and keep the fastest."""

    name, title, devices = "cudnn_benchmark", "cuDNN benchmark", GPU
    top = write = "torch.backends.cudnn.benchmark = True"

    def why_not(self) -> str:
        if torch.backends.cudnn.benchmark:
            return "cuDNN is asked to choose already"
        return "" if self.session.modules(torch.nn.modules.conv._ConvNd) else "no convolutions"

    def turn(self, on: bool) -> None:
        torch.backends.cudnn.benchmark = on


class _CpuThreads(Switch):
    """Use all cores that the process may use, where the script or its environment uses fewer."""

    name, title, devices = "cpu_threads", "all cores", ("cpu",)
    top = write = f"torch.set_num_threads({CORES})"
    _before = 0

    def why_not(self) -> str:
        used = torch.get_num_threads()
        return "" if used < CORES else f"all {CORES} cores are used already"

    def turn(self, on: bool) -> None:
        self._before = self._before or torch.get_num_threads()
        torch.set_num_threads(CORES if on else self._before)


class _ExpandableSegments(Switch):
    """Let the allocator grow its segments: fewer cudaMalloc and cudaFree where sizes change."""

    name, title, fresh = "expandable_segments", "expandable segments", True
    write = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    environment = MappingProxyType(dict([write.split("=")]))  # that of the process has it
    realises, devices = ("allocator",), GPU
