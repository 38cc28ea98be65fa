"""Which agents the orchestration baselines ask, each as a backbone: a model without its worker's style."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypedDict

from baselines.components import Components, Parts, load
from trinity.arena import Arena, Contender
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.llm.pool import checked_sampling
from trinity.naming import check_choice
from trinity.types import Agent, Method


@dataclass(frozen=True)
class Backbones:
    """Names of agents (None: the whole pool) and sampling parameters laid over their own, None takes one away.

    Raises:
        ConfigError: no names, or parameters that no agent of a pool may have.
    """

    agents: Sequence[str] | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what a configuration holds as the pool's file is checked."""
        if self.agents is not None:
            names("backbones.agents", self.agents)
        checked_sampling("backbones", self.sampling)

    def of(self, pool: Sequence[Agent]) -> list[Agent]:
        """The agents as backbones, in the pool's order; of those that are then alike the first.

        A temperature above 0 makes an agent one that samples, a temperature of 0 leaves it what it is.

        Raises:
            ConfigError: a name is of no agent.
        """
        for name in self.agents or ():
            check_choice("backbones.agents", name, [agent.name for agent in pool])
        chosen = [agent for agent in pool if self.agents is None or agent.name in self.agents]
        different: dict[str, Agent] = {}
        for agent in map(self.one, chosen):
            different.setdefault(asked_as(agent), agent)
        return list(different.values())

    def one(self, agent: Agent) -> Agent:
        """`agent` as a backbone, whatever `agents` says."""
        return replace(self._set(agent), style="")

    def _set(self, agent: Agent) -> Agent:
        """The agent with our sampling parameters, its style kept."""
        sampling = {key: value for key, value in {**agent.sampling, **self.sampling}.items() if value is not None}
        cold = agent.deterministic and not sampling.get("temperature")
        return replace(agent, sampling=sampling, deterministic=cold)


def asked_as(agent: Agent) -> str:
    """What shapes the answers of an agent, as a text: equal for those that are alike."""
    settings = (sorted(agent.sampling.items()), sorted(agent.extra_body.items()))
    return repr((agent.endpoint, agent.model, agent.style, *settings))


class Row(TypedDict):
    """The fields of `baselines.workflow.Scaffold`."""

    name: str
    variant: str
    backbone: str
    replicates: int | None


class Common(TypedDict, total=False):
    """The settings of every method that asks backbones, as in `Orchestrated`."""

    name: str | None
    backbones: Mapping[str, Any] | None
    components: Mapping[str, Any] | None
    replicates: int | None


class Orchestrated(Contender):
    """A method that asks backbones by named components.

    Attributes:
        name: of the method, and of its place in errors.
        parts: its components and their placeholders.
        prompts: folder of its components' texts; None: the one of its name.
    """

    name: str
    parts: ClassVar[Parts] = {}
    prompts: ClassVar[str | None] = None

    def __init__(
        self,
        *,
        name: str | None = None,
        backbones: Mapping[str, Any] | None = None,
        components: Mapping[str, Any] | None = None,
        replicates: int | None = None,
    ) -> None:
        """Its name in tables (None: its own), whom to ask, texts that replace components, test replicates.

        Without `replicates` as many as set.

        Raises:
            ConfigError: one of them is wrong.
        """
        folder = self.prompts or self.name
        if name is not None:
            (self.name,) = names(f"methods.{self.name}.name", [name])
        self.backbones = Backbones(**mapping(f"methods.{self.name}.backbones", backbones))
        given = mapping(f"methods.{self.name}.components", components)
        self.components: Components = load(self.name, self.parts, given, folder=folder)
        self.replicates = checked_replicates(self.name, replicates)

    def asked(self, pool: Sequence[Agent]) -> Sequence[Agent]:
        """Any agent of the pool as a backbone."""
        return [self.backbones.one(agent) for agent in pool]

    def named(self, pool: Sequence[Agent], key: str, *wanted: str | None) -> list[Agent]:
        """The agents that the setting `key` names, as backbones; None names nobody.

        Raises:
            ConfigError: a name is of no agent.
        """
        known = {agent.name: agent for agent in pool}
        given = [name for name in wanted if name is not None]
        for name in given:
            check_choice(f"methods.{self.name}.{key}", name, known)
        return [self.backbones.one(known[name]) for name in given]


class PerBackbone(Orchestrated):
    """One method a backbone: a row per agent, so that a backbone is compared with itself.

    Attributes:
        samples: whether it asks one thing several times, which an agent without noise would answer alike.
    """

    samples: ClassVar[bool] = False

    @abstractmethod
    def method(self, agent: Agent) -> Method:
        """The method on one backbone."""

    @abstractmethod
    def reads(self) -> Sequence[int]:
        """Of each call at the most, in order: how many earlier answers it reads."""

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """One method a backbone; nothing is learnt."""
        return [self.method(agent) for agent in self.backbones.of(arena.agents)]

    def check(self, ground: Ground) -> None:
        """Refuse unknown backbones, and backbones without noise where samples have to differ."""
        cold = [agent.name for agent in self.backbones.of(ground.agents) if agent.deterministic]
        if self.samples and cold:
            raise ConfigError(
                f"method {self.name} draws several answers of {', '.join(cold)}, which would all be equal; "
                "set backbones.sampling.temperature above 0, or name others in backbones.agents"
            )

    def forecast(self, ground: Ground) -> Forecast:
        """Every call of every test episode, each backbone by itself."""
        return self.worst(ground, self.reads())

    def worst(self, ground: Ground, reads: Sequence[int]) -> Forecast:
        """Test episodes of as many calls as `reads` has entries, each backbone by itself."""
        return Forecast.total(
            ground.worked([agent], "test", reads, self.components.n_bytes, times=ground.times([agent], self.replicates))
            for agent in self.backbones.of(ground.agents)
        )

    def row(self, agent: Agent) -> Row:
        """Name, variant (the agent's name), backbone and replicates of the method on `agent`."""
        times = 1 if agent.deterministic else self.replicates
        return {"name": self.name, "variant": agent.name, "backbone": agent.model, "replicates": times}


def joint_row(name: str, variant: str, agents: Sequence[Agent], replicates: int | None) -> Row:
    """The fields of a method in which several agents answer; its backbone joins their models, each once."""
    models = dict.fromkeys(agent.model for agent in agents)
    return {"name": name, "variant": variant, "backbone": " + ".join(models), "replicates": replicates}


def names(place: str, given: object) -> list[str]:
    """`given`, a list of names, which is not empty.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(given, Sequence) and not isinstance(given, str):
        found = [name for name in given if isinstance(name, str) and name.strip()]
        if found and len(found) == len(given):
            return found
    raise ConfigError(f"{place}={given}: give a list of names, [NAME, ...]")


def mapping(place: str, given: object) -> dict[str, Any]:
    """`given`, keys and values, or nothing.

    Raises:
        ConfigError: it is something else.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}={given}: give keys and values, {{KEY: VALUE}}")
    return {str(key): value for key, value in given.items()}


def checked_replicates(method: str, value: object) -> int | None:
    """`value`, test replicates of `method`, or None for as many as set; raises as `whole_number`."""
    return None if value is None else whole_number(method, "replicates", value)


def whole_number(method: str, key: str, value: object, least: int = 1, most: int = 1000) -> int:
    """`value`, a whole number between `least` and `most`.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"methods.{method}.{key}={value}: give a whole number from {least} to {most}")
    return value
