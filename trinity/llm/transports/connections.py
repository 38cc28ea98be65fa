"""The connections to an endpoint: as many as there are calls in flight, and none that the server has closed."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import aiohttp

IDLE_S = 4.0
"""How long an idle connection is kept: uvicorn, Node and llama.cpp's server close theirs after 5 s, and a request that
crosses such a close on its way is lost."""


def connector() -> aiohttp.TCPConnector:
    """A connector without limits that lends no closed connection.

    aiohttp asks whether the loop has heard of the close. A loop that was busy meanwhile has not; the socket then has
    something to read, which an idle connection never has. A request sent on it would be a failed attempt.
    """
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        """As above."""

        async def connect(
            self,
            req: aiohttp.ClientRequest,
            traces: list[aiohttp.tracing.Trace],
            timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
        ) -> aiohttp.connector.Connection:
            """A connection: an idle one that is alive, else a new one."""
            while True:
                connection = await super().connect(req, traces, timeout)
                if connection.protocol not in lent:
                    break
                if not _readable(connection):
                    return connection
                connection.close()
            lent.add(connection.protocol)
            return connection

    lent: WeakSet[object] = WeakSet()
    return Connector(limit=0, keepalive_timeout=IDLE_S)


def _readable(connection: aiohttp.connector.Connection) -> bool:
    """Whether something came on an idle connection: its end, or what nobody asked for."""
    transport = connection.transport
    socket = None if transport is None else transport.get_extra_info("socket")
    if socket is None:
        return False
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
