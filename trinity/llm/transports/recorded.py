"""Nobody to ask: what stands in for a run's endpoints when it is replayed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from trinity.errors import LedgerError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.types import PoolKind


class RecordedTransport:
    """An endpoint of an earlier run: its name and kind, and which of its requests failed for good."""

    def __init__(self, endpoint_id: str, kind: PoolKind, failed: AbstractSet[str]) -> None:
        """`failed` are hashes of requests with attempts but perhaps no answer."""
        self.kind: PoolKind = kind
        self._endpoint_id, self._failed = endpoint_id, failed

    @property
    def endpoint_id(self) -> str:
        """That of the earlier run."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """Nothing of its own."""
        return {}

    async def send(self, request: Request, seed: int) -> Reply:
        """Fail as the request failed then.

        Raises:
            TransportError: it failed then.
            LedgerError: it was never asked.
        """
        if request.hash in self._failed:
            raise TransportError("server", "this call failed in the run that is replayed")
        raise LedgerError(f"call {request.call_id} is not in the ledger: it, the prompts or the tasks have changed")

    async def close(self) -> None:
        """Nothing to let go of."""
