"""What the fixes share that replace the forward pass of the outermost module, or the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.record.tries.session import Session, Switch


class ForwardSwitch(Switch):
    """Runs the outermost forward pass through what `changed` makes of it.

    The module's own hooks stay outside: they find the steps.
    """

    whole = False  # a function is changed as a whole, even where it calls a module

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
        owner: Any = session.outermost
        name = "forward"
        if owner is None or (self.whole and session.call is not None):
            owner, name = session, "call"
        if getattr(owner, name, None) is None:
            return
        if self._changed is None:
            self._original = getattr(owner, name)
            self._changed = self.changed(self._original)
        setattr(owner, name, self._changed if on else self._original)
