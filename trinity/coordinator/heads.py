"""Heads: an encoder state and parameters theta -> logits over agents and roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trinity.types import ROLES


class Head(Protocol):
    """Logits from a state; `size` is the length of theta."""

    @property
    def size(self) -> int:
        """Length of theta."""
        ...

    def logits(self, theta: NDArray[np.float64], state: NDArray[np.float32]) -> NDArray[np.float64]:
        """Shape (n_agents + 3,): agents first, then thinker, worker, verifier."""
        ...


@dataclass(frozen=True)
class LinearHead:
    """Bias-free linear map, (L + 3) x d parameters (TRINITY, section 3: 10 x 1024 = 10,240 for L = 7)."""

    d: int
    n_agents: int

    @property
    def size(self) -> int:
        """Length of theta."""
        return (self.n_agents + len(ROLES)) * self.d

    def logits(self, theta: NDArray[np.float64], state: NDArray[np.float32]) -> NDArray[np.float64]:
        """W h with W = theta in rows of length d; agents' rows first, then the roles'."""
        weights = np.asarray(theta, dtype=np.float64).reshape(-1, self.d)
        # A sum along the contiguous axis: its order, unlike a BLAS product's, depends on neither threads nor CPU.
        product: NDArray[np.float64] = (weights * np.asarray(state, dtype=np.float64)).sum(axis=1)
        return product
