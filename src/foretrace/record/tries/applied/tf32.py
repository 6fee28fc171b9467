"""Let float32 matmuls and convolutions run on tensor cores, with 10 bits of the fraction."""

from __future__ import annotations

import torch

from foretrace.record.tries.session import Applied, Session, Switch

WRITE = 'torch.set_float32_matmul_precision("high")'
_CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


class _Tf32(Switch):
    top = WRITE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before: tuple[str, bool] | None = None

    def why_not(self) -> str:
        exact = self.session.modules(*_CONVOLUTIONS) and not torch.backends.cudnn.allow_tf32
        if torch.get_float32_matmul_precision() != "highest" and not exact:
            return "float32 matmuls use tensor cores already"
        kinds = {each.dtype for each in self.session.parameters}
        return "" if not kinds or torch.float32 in kinds else "the parameters are not float32"

    def turn(self, on: bool) -> None:
        if self._before is None:
            self._before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
            # a script may turn them off in every step
            if self.session.outermost is not None:
                self.session.outermost.register_forward_pre_hook(self._again)
        super().turn(on)
        if on:
            _allow()
            return
        torch.set_float32_matmul_precision(self._before[0])
        torch.backends.cudnn.allow_tf32 = self._before[1]

    def _again(self, module: object, given: object) -> None:
        if self.on:
            _allow()


def _allow() -> None:
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True


APPLIED = Applied(
    "tf32",
    "TF32 matmuls",
    WRITE,
    _Tf32,
    realises=("tf32",),
    tolerance=1e-2,
    devices=("cuda",),
)
