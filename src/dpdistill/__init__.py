"""dpdistill: private labelled data to a tiny synthetic set that may be shared, under differential privacy."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget as Budget
    from dpdistill.data import Records as Records
    from dpdistill.data import load as load
    from dpdistill.data import straighten_images as straighten_images
    from dpdistill.methods import *  # noqa: F403 - the methods of the one table
    from dpdistill.run.driver import Result as Result
    from dpdistill.run.driver import distill as distill
    from dpdistill.run.driver import distill_without_privacy as distill_without_privacy
    from dpdistill.run.driver import finish_again as finish_again
    from dpdistill.run.start import begin_ledger as begin_ledger
    from dpdistill.schema import Column as Column
    from dpdistill.schema import DataError as DataError
    from dpdistill.schema import Schema as Schema
    from dpdistill.schema import TableSchema as TableSchema
    from dpdistill.table_distiller import TableDistiller as TableDistiller
    from dpdistill.verification import verify as verify

__version__ = "0.1.0"


@cache
def _offered() -> dict[str, Any]:
    """What is offered, imported when the first of it is asked for: `dpdistill --help` need not wait for JAX."""
    from dpdistill.accounting.schedule import Budget
    from dpdistill.data import Records, load, straighten_images
    from dpdistill.methods import METHODS
    from dpdistill.run.driver import Result, distill, distill_without_privacy, finish_again
    from dpdistill.run.start import begin_ledger
    from dpdistill.schema import Column, DataError, Schema, TableSchema
    from dpdistill.verification import verify

    functions = (begin_ledger, distill, distill_without_privacy, finish_again, load, straighten_images, verify)
    types = (Budget, Column, DataError, Records, Result, Schema, TableSchema, *METHODS.values())
    return {each.__name__: each for each in (*functions, *types)}


def __getattr__(name: str) -> Any:
    # scikit-learn, pandas and PyArrow are an extra: they are imported by those who work with tables.
    if name == "TableDistiller":
        from dpdistill.table_distiller import TableDistiller

        return TableDistiller
    if name == "__all__":
        return [*_offered(), "TableDistiller"]
    # What Python itself asks for, such as __path__, is not offered.
    if not name.startswith("_"):
        offered = _offered()
        # Parts of the package that come with what is offered, such as dpdistill.data, are names of it by then.
        found = {**globals(), **offered}
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_offered(), "TableDistiller"])
