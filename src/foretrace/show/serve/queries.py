"""SQL for the viewer: two queries at a time, each in a process that ends with its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.concurrency import run_in_threadpool

from foretrace.base.budget import Limits
from foretrace.model.query import check
from foretrace.model.query_process import QueryProcess, QueryResult
from foretrace.show.serve.opened import OpenTrace

MOST_ROWS = 1000
AT_ONCE = 2  # more of them wait in line

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Queries:
    """Runs queries; after the first one a process is kept ready, which saves 0.3 s each."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._places = asyncio.Semaphore(AT_ONCE)
        self._spare: QueryProcess | None = None

    async def answer(self, opened: OpenTrace, query: str, receive: Receive) -> QueryResult:
        """The first rows of a result; nothing runs on when the client is gone."""
        check(query)  # before a process is used up
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            async with self._places:
                return await self._run(opened, query, gone)
        finally:
            gone.cancel()

    async def _run(self, opened: OpenTrace, query: str, gone: asyncio.Future[None]) -> QueryResult:
        process, self._spare = self._spare or QueryProcess(), None

        def run() -> QueryResult:
            return process.run(opened.trace, query, self.limits, MOST_ROWS)

        running = asyncio.ensure_future(run_in_threadpool(run))
        try:
            await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            process.end()
            self._spare = self._spare or QueryProcess()
        return await running


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
