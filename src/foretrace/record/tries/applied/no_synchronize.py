"""Take out calls of `torch.cuda.synchronize` and `torch.cuda.empty_cache`.

Results do not depend on them. A script that times itself with them then measures launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class _NoSynchronize(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._calls = 0
        for name in ("synchronize", "empty_cache"):
            setattr(torch.cuda, name, self._left_out(getattr(torch.cuda, name)))

    def why_not(self) -> str:
        return "" if self._calls else "the script calls neither in its steps"

    def _left_out(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self._calls += self.session.losses is not None and self.session.by_user()
            return None if self.on else original(*arguments, **options)

        return called


APPLIED = Applied(
    "no_synchronize",
    "no synchronize, no empty_cache",
    "remove torch.cuda.synchronize() and torch.cuda.empty_cache()",
    _NoSynchronize,
    realises=("synchronize", "allocator"),
    tolerance=1e-5,
    devices=("cuda",),
)
