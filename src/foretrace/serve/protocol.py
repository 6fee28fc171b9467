"""HTTP as uvicorn speaks it, with a limit on how long a client may take to say what it wants."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SLOWEST_S = 10.0
_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Prompt(H11Protocol):
    """Closes a connection that has not sent its one request (see `guard`) in time."""

    def connection_made(self, transport: Any) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(SLOWEST_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _late(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.write(_LATE)
            self.transport.close()
