"""Every error that the suite raises on purpose.

    TrinityError                 one line, exit code 2
    ├── ConfigError              an option, a key or a combination of them is wrong
    │   └── SplitError           train, validation and test share an item
    ├── DataError                a data file is missing or broken
    │   └── WeightsError         model weights are damaged or cannot be used
    │       └── WeightsGoneError      no source has them; the run goes on with the agents that are left
    ├── EndpointError            the run cannot ask this endpoint: nobody listens, credentials, model name
    ├── CallError                one call failed after its retries; its episode becomes `error`
    ├── BudgetError              a cap of run or phase is reached; its episode becomes `over_budget`, the run stops
    ├── EpisodeCapError          the next call could pass the episode's own cap; it ends on its latest answer
    ├── GraderError              a grader failed; its episode becomes `error`
    ├── LedgerError              a ledger, store or run folder is missing, damaged or of another run
    │   └── OfflineError         an answer is not in the store, and `store.mode=offline` lets nobody be asked
    └── UngradedError            the run cannot go on before failed episodes are asked, or graded, again

A message says what is wrong, where, and what to do, in one line.
"""

from __future__ import annotations


class TrinityError(Exception):
    """Base of all; the commands print its text as one line and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        """The message folded to one line."""
        return " ".join(super().__str__().split())


class ConfigError(TrinityError):
    """An option, a key or a combination of them is wrong."""


class SplitError(ConfigError):
    """Train, validation and test share an item."""


class DataError(TrinityError):
    """A data file is missing or broken."""


class WeightsError(DataError):
    """Model weights are damaged or cannot be used."""


class WeightsGoneError(WeightsError):
    """No source has these weights; the run goes on with the agents that are left."""


class EndpointError(TrinityError):
    """An endpoint cannot be used at all; the run stops."""


class CallError(TrinityError):
    """One call failed after its retries."""


class BudgetError(TrinityError):
    """A cap of the run or of a phase is reached; the run stops at an episode's end and can be resumed."""


class EpisodeCapError(TrinityError):
    """The next call could pass the episode's own cap; methods end with the answer they have."""


class GraderError(TrinityError):
    """A grader failed; the episode is an `error`, not a wrong answer."""


class LedgerError(TrinityError):
    """A ledger, store or run folder is missing, damaged or belongs to another run."""


class OfflineError(LedgerError):
    """An answer is not in the store and nobody may be asked."""


class UngradedError(TrinityError):
    """Episodes were never graded: a generation needs them, or no answer of a task can be graded at all."""
