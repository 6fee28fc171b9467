"""What the fixes share that replace the forward pass of the outermost module, or the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.record.tries.session import Session, Switch


class ForwardSwitch(Switch):
    """Runs the outermost forward pass through what `changed` makes of it.

    The module's own hooks stay outside: they find the steps.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._original: Any = None
        self._changed: Any = None

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The forward pass to run instead."""
        raise NotImplementedError

    def turn(self, on: bool) -> None:
        """Replace the forward pass, or put it back; the change is made once."""
        session = self.session
        if session.outermost is None and session.call is None:
            return
        if self._changed is None:
            self._original = session.call if session.outermost is None else self._forward()
            self._changed = self.changed(self._original)
        chosen = self._changed if on else self._original
        if session.outermost is None:
            session.call = chosen
        else:
            session.outermost.forward = chosen

    def _forward(self) -> Any:
        return self.session.outermost.forward
