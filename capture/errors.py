"""Every error that flipscope raises on purpose. Imports nothing.

FlipscopeError
├── UsageError              an option or argument that cannot be served
│   ├── StudyError          a study file that is wrong
│   ├── CaseError           a case file that is wrong
│   └── PlanError           a plan that cannot be carried out (disk, context length)
├── BundleError             a bundle that cannot be trusted or read
│   ├── ForeignBundleError  not a flipscope bundle, or one that holds views, macros or functions
│   └── DamagedBundleError  a bundle that is truncated or whose contents contradict it
├── SpoolError              a spool folder that cannot be used
├── StorageFullError        the disk is full
├── EngineError             an engine that fails to start or to run
│   └── WorkerDiedError     the worker process ended by itself
├── VocabularyError         two lanes whose tokens differ
├── ComparisonError         runs that must not be compared
├── CheckError              a check of the user's that gave no verdict
├── CancelledError          work that was cancelled
└── NotFoundError           an unknown case, run, lane or fork
"""

from __future__ import annotations


class FlipscopeError(Exception):
    """Base of all; the message is one sentence for the user that says what to do next."""


class UsageError(FlipscopeError):
    """An option or argument that cannot be served."""


class StudyError(UsageError):
    """A study file that is wrong."""


class CaseError(UsageError):
    """A case file that is wrong."""


class PlanError(UsageError):
    """A plan that cannot be carried out, because of the disk or a model's context length."""


class BundleError(FlipscopeError):
    """A bundle that cannot be trusted or read."""


class ForeignBundleError(BundleError):
    """A file that is no flipscope bundle, or that holds views, macros or functions."""


class DamagedBundleError(BundleError):
    """A bundle that is truncated or whose contents contradict it."""


class SpoolError(FlipscopeError):
    """A spool folder that cannot be used."""


class StorageFullError(FlipscopeError):
    """The disk is full; what was recorded before stays in the spool."""


class EngineError(FlipscopeError):
    """An engine that fails to start or to run."""


class WorkerDiedError(EngineError):
    """The worker process ended by itself; `how` says how, and not what to do."""

    def __init__(self, message: str, how: str = "") -> None:
        super().__init__(message)
        self.how = how or message


class VocabularyError(FlipscopeError):
    """Two lanes that map a token id to different bytes."""


class ComparisonError(FlipscopeError):
    """Runs that must not be compared, such as two scoring paths mixed."""


class CheckError(FlipscopeError):
    """A check of the user's that gave no verdict; what others said is kept."""


class CancelledError(FlipscopeError):
    """Work that was cancelled."""


class NotFoundError(FlipscopeError):
    """An unknown case, run, lane or fork."""
