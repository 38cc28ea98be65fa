"""Methods that go in rounds, as many as set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from baselines.backbones import PerBackbone, whole


class InRounds(PerBackbone):
    """One method a backbone that goes in rounds.

    Attributes:
        usual: the number of rounds unless another is given.
        rounds: the number of rounds; what a round is, the method says.
    """

    usual: ClassVar[int]

    def __init__(
        self,
        *,
        rounds: int | None = None,
        backbones: Mapping[str, Any] | None = None,
        components: Mapping[str, Any] | None = None,
        replicates: int | None = None,
    ) -> None:
        """`rounds` (None: as many as usual); the others as in `PerBackbone`.

        Raises:
            ConfigError: one of them is wrong.
        """
        super().__init__(backbones=backbones, components=components, replicates=replicates)
        self.rounds = whole(self.name, "rounds", self.usual if rounds is None else rounds)
