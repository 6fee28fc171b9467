"""Let float32 matmuls and convolutions run on tensor cores, with 10 bits of the fraction."""

from __future__ import annotations

import torch

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Applied, Session, Switch

WRITE = 'torch.set_float32_matmul_precision("high")'


class _Tf32(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before: tuple[str, bool] | None = None

    def why_not(self) -> str:
        if torch.get_float32_matmul_precision() != "highest":
            return "float32 matmuls use tensor cores already"
        kinds = {each.dtype for each in self.session.parameters}
        return "" if not kinds or torch.float32 in kinds else "the parameters are not float32"

    def turn(self, on: bool) -> None:
        if self._before is None:
            self._before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        precision, convolutions = ("high", True) if on else self._before
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = convolutions

    def edits(self) -> list[Edit]:
        return [Edit("top", WRITE)]


APPLIED = Applied(
    "tf32",
    "TF32 matmuls",
    WRITE,
    _Tf32,
    realises=("tf32",),
    tolerance=1e-2,
    devices=("cuda",),
)
