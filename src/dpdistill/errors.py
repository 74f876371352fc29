"""Errors of the package: one base class, and one class for each kind of cause."""

EXTRAS = {
    **{"sklearn": "digits", "pandas": "tables", "pyarrow": "tables", "xgboost": "xgboost", "matplotlib": "plot"},
    **{"sqlalchemy": "sql", "psycopg": "sql", "duckdb": "sql", "duckdb_engine": "sql", "pydicom": "dicom"},
    **{"jax_privacy": "audit", "mbi": "marginals", "onnx": "onnx", "openpyxl": "excel"},
    **{"ray": "ray", "fsspec": "ray"},
    **{"cryptography": "sign", "bcrypt": "sign"},
}
"""Packages that a command may lack, and the extra that installs each."""


class DPDistillError(Exception):
    """An error that a caller can fix or must know; its text is one sentence without any private value."""


class DataError(DPDistillError, ValueError):
    """Input that cannot be used: records, a schema, a recipe, an option."""


class LedgerError(DPDistillError, ValueError):
    """A ledger that is damaged, belongs to another run, or refuses the request."""


class CertificateError(DPDistillError, ValueError):
    """A certificate that cannot be read."""


class CuratorError(DPDistillError, RuntimeError):
    """A release that was refused or failed inside the private room; the text states public facts only."""


class LedgerUnusable(LedgerError):
    """A ledger that cannot be written or read at present: a full disk, a lock, a missing folder."""

    of_the_machine = True
    """A retry may succeed."""


class Unanswered(CuratorError):
    """A round that this machine could not answer, for lack of disk or workers."""

    of_the_machine = True
    """A retry may succeed."""


class OutOfMemory(Unanswered):
    """A round that this machine could not answer for lack of memory: a fact of the machine and the plan."""


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error is Python's, or JAX's, of too little memory."""
    exhausted = type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError") and "RESOURCE_EXHAUSTED" in str(error)
    return exhausted or isinstance(error, MemoryError)
