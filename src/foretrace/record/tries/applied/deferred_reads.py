"""Read `.item()` late: the value is fetched when something needs it, not while the step runs.

A logged loss then costs no wait. Where the value decides what to do next, nothing is won.
"""

from __future__ import annotations

from typing import Any

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class Later:
    """A number that is read from the GPU when it is used; sums of such numbers wait as well."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __add__(self, other: Any) -> Any:
        """A sum that is read later."""
        return Later(self._tensor + (other._tensor if isinstance(other, Later) else other))

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        """A product that is read later."""
        return Later(self._tensor * (other._tensor if isinstance(other, Later) else other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        """A quotient that is read later."""
        return Later(self._tensor / (other._tensor if isinstance(other, Later) else other))

    def __float__(self) -> float:
        """The value, now."""
        return float(_item(self._tensor))

    def __int__(self) -> int:
        """The value, now."""
        return int(_item(self._tensor))

    __index__ = __int__

    def __bool__(self) -> bool:
        """Whether the value is not zero, now."""
        return bool(_item(self._tensor))

    def __format__(self, spec: str) -> str:
        """The value as text, now."""
        return format(_item(self._tensor), spec)

    def __repr__(self) -> str:
        """The value as text, now."""
        return repr(_item(self._tensor))

    def __eq__(self, other: object) -> bool:
        """Compared now."""
        return bool(_item(self._tensor) == other)

    def __lt__(self, other: Any) -> bool:
        """Compared now."""
        return bool(_item(self._tensor) < other)

    def __gt__(self, other: Any) -> bool:
        """Compared now."""
        return bool(_item(self._tensor) > other)

    def __hash__(self) -> int:
        """That of the value, now."""
        return hash(_item(self._tensor))

    def __getattr__(self, name: str) -> Any:
        """Whatever else a number has, now."""
        return getattr(_item(self._tensor), name)


_item = torch.Tensor.item


class _DeferredReads(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._reads = 0
        tensor: Any = torch.Tensor
        tensor.item = self._read

    def why_not(self) -> str:
        return "" if self._reads else "nothing is read from the GPU with .item()"

    @property
    def _read(self) -> Any:
        def item(tensor: Any) -> Any:
            if not tensor.is_cuda or not self.session.by_user():
                return _item(tensor)
            self._reads += 1
            return Later(tensor.detach().clone()) if self.on else _item(tensor)

        return item


APPLIED = Applied(
    "deferred_reads",
    "losses read later",
    "keep loss.detach(), call .item() after the loop",
    _DeferredReads,
    realises=("scalar_reads",),
    tolerance=1e-5,
    devices=("cuda",),
)
