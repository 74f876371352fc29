"""The errors of the package: one base, and a kind for each thing that may be at fault."""


class DPDistillError(Exception):
    """Something that a caller can mend or must know; the text is one sentence without any private value."""


class DataError(DPDistillError, ValueError):
    """Input that cannot be used: records, a schema, a recipe, an option."""


class LedgerError(DPDistillError, ValueError):
    """A ledger that is damaged, belongs to another run, or does not allow what is asked."""


class CertificateError(DPDistillError, ValueError):
    """A certificate that cannot be read."""


class CuratorError(DPDistillError, RuntimeError):
    """A release that was refused or failed inside the private room; the text states public facts only."""


class LedgerUnusable(LedgerError):
    """A ledger that cannot be written or read for now: a full disk, a lock, a folder that is gone."""

    of_the_machine = True
    """Another try may work."""


class Unanswered(CuratorError):
    """A round that this machine could not answer, for want of memory, disk or workers."""

    of_the_machine = True
    """Another try may work."""
