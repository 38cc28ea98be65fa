"""What is known of endpoints and agents: tells a failed call from an endpoint that nobody should ask again."""

from __future__ import annotations

from collections import Counter

from trinity.errors import CallError, EndpointError, TrinityError
from trinity.llm.transports.base import TransportError
from trinity.types import Agent

FIRST_REQUESTS = 3
"""An agent whose first so many requests are all refused is set up wrongly."""


class Health:
    """Remembers who answered, who was refused, and which endpoints are stopped."""

    def __init__(self) -> None:
        self._reached: set[str] = set()
        self._settled: set[str] = set()
        self._refused: Counter[str] = Counter()
        self._stopped: dict[str, EndpointError] = {}

    def check(self, agent: Agent) -> None:
        """Raise what stopped the agent's endpoint, if anything did."""
        if agent.endpoint in self._stopped:
            raise EndpointError(str(self._stopped[agent.endpoint]))

    def stop(self, agent: Agent, error: EndpointError) -> EndpointError:
        """From now on every call to the agent's endpoint fails at once, each with an error of its own."""
        return EndpointError(str(self._stopped.setdefault(agent.endpoint, error)))

    def heard(self, agent: Agent, error: TransportError) -> None:
        """An attempt failed; one with an HTTP status came from somebody who listens."""
        if error.status is not None:
            self._reached.add(agent.endpoint)

    def answered(self, agent: Agent) -> None:
        """A request of the agent ended well."""
        self._reached.add(agent.endpoint)
        self._settled.add(agent.name)

    def known(self, agent: Agent) -> None:
        """A request of the agent was answered, now or in an earlier run: it is not set up wrongly."""
        self._settled.add(agent.name)

    def failure(self, agent: Agent, error: TransportError) -> TrinityError:
        """What a call's last failure amounts to."""
        where = f"agent {agent.name}: {error}"
        if error.kind == "fatal":
            return self.stop(agent, EndpointError(where))
        if error.refused and agent.endpoint not in self._reached:
            hint = f"it cannot be reached; start the server, or correct the URL of endpoint {agent.endpoint}"
            return self.stop(agent, EndpointError(f"{where}; {hint}"))
        if error.kind != "bad_request":
            self._settled.add(agent.name)
        elif agent.name not in self._settled:
            self._refused[agent.name] += 1
            if self._refused[agent.name] >= FIRST_REQUESTS:
                hint = f"all of its first {FIRST_REQUESTS} requests were refused; check model, sampling and extra_body"
                return self.stop(agent, EndpointError(f"{where}; {hint}"))
        return CallError(where)
