"""Estimator for pandas users, with scikit-learn's conventions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpdistill import run
from dpdistill.accounting.schedule import ROWS_PER_UNIT, Budget
from dpdistill.folder.tables import to_frame
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.row_numbers import completed
from dpdistill.schema import TableSchema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_reviewed, with_units
from dpdistill.storage.memory import check_sample


class TableDistiller(BaseEstimator):
    """Distils a frame of private rows into a frame of synthetic rows, under differential privacy.

    Args:
        schema: a TableSchema, or the path of a reviewed schema.yaml; the frame is never used to infer a schema.
        epsilon: the budget of one fit, > 0; a second fit on the same rows spends epsilon again.
        delta: the budget's delta, in (0, 1).
        method: a distiller of tables, DPMERF(), DPHP() or DPKIP(); DPMERF() if None.
        adjacency: "add-remove" or "replace-one".
        strict: stop at a row that the schema does not allow; otherwise such a row contributes nothing.
        seed: seed of everything public, never of the noise.
        run_dir: the owner's folder: ledger and checkpoints, for resuming; None keeps them in memory.
        ledger: file that adds up all runs on this data set, under one cap, and refuses the fit that would exceed it;
            `begin_ledger` makes it.
        unit_column: column that names the person of each row, whose rows are protected together. None for the column
            of schema.yaml, or for single rows.
        rows_per_unit: maximum number of rows used per person, drawn at random; requires a unit column. None for 4.
            The number does not change epsilon.

    Attributes:
        result_: synthetic rows and the privacy cost (`Result`), without private rows.
        schema_: the TableSchema.
        epsilon_: epsilon spent by the fit.
        classes_: names of the classes, (classes,).
        feature_names_in_: names of the columns, (columns,).

    Guarantee:
        (epsilon, delta)-DP of everything on the fitted object, for one row of the frame, or for all rows of one person.

    Example:
        >>> TableDistiller("schema.yaml", epsilon=1.0).fit(df).sample(1000)  # doctest: +SKIP
    """

    def __init__(
        self,
        schema: TableSchema | str | os.PathLike,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: Any = None,
        adjacency: str = "add-remove",
        strict: bool = True,
        seed: int = 0,
        run_dir: str | os.PathLike | None = None,
        ledger: str | os.PathLike | None = None,
        unit_column: str | None = None,
        rows_per_unit: int | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.adjacency = adjacency
        self.strict = strict
        self.seed = seed
        self.run_dir = run_dir
        self.ledger = ledger
        self.unit_column = unit_column
        self.rows_per_unit = rows_per_unit

    def fit(self, X: Any, y: Any = None) -> TableDistiller:
        """Distils a frame.

        Args:
            X: a pandas DataFrame with the schema's columns, and the label's unless y is given.
            y: the labels, (n,), which replace the label's column.

        Raises:
            DataError: a frame that does not fit the schema, or a schema that is not reviewed.
            ValueError: a budget or a field that cannot be used.
            LedgerError: the ledger refuses the run, before the frame is read, or the run's records.
        """
        table_file = self._table_file()
        unit = table_file.unit_column
        if unit is None and self.rows_per_unit is not None:
            raise ValueError("Expected unit_column with rows_per_unit: the column that names the person of a row.")
        rows = ROWS_PER_UNIT if self.rows_per_unit is None else self.rows_per_unit
        budget = Budget(self.epsilon, self.delta, self.adjacency, unit, 1 if unit is None else rows)  # type: ignore[arg-type]
        method = DPMERF() if self.method is None else self.method
        paid: Any = {"ledger": self.ledger, "seed": self.seed, "run_dir": self.run_dir}
        run.check_ledger(method, budget, **paid)
        if y is not None:
            label = table_file.schema.label or table_file.schema.target
            if label is None:
                raise ValueError("Expected no y: the schema states a table without a label.")
            X = X.assign(**{label: np.asarray(y)})
        records = load_table(X, table_file, self.strict)
        self.result_ = run.distill(records, method, budget, label=type(self).__name__, **paid)
        self.schema_ = table_file.schema
        self.epsilon_ = self.result_.epsilon
        self.classes_ = np.array(table_file.schema.classes)
        self.feature_names_in_ = np.array([column.name for column in table_file.schema.columns], object)
        return self

    def sample(self, n: int | None = None, seed: int = 1) -> Any:
        """Returns synthetic rows with the schema's columns, types and categories, at no further cost.

        Args:
            n: number of rows, >= 1; None for the distilled rows.
            seed: public seed of the rows.

        Returns:
            A pandas DataFrame.

        Raises:
            ValueError: n is given, and the method has no generator.
            DataError: more rows than memory holds.
            sklearn.exceptions.NotFittedError: `fit` was not called.
        """
        check_is_fitted(self, "result_")
        distilled = self.result_.distilled
        if n is None:
            return to_frame(self.result_.X, distilled.y, self.schema_)
        if n < 1:
            raise ValueError(f"Expected n={n} >= 1.")
        if distilled.generator is None:
            raise ValueError(f"This method has no generator: call sample() without n for its {len(distilled.y)} rows.")
        check_sample(n, self.schema_)
        X, y = distilled.generator.sample(n, seed)
        X, y = completed(distilled.classifier, distilled.schema, X, y, seed)
        return to_frame(self.schema_.from_unit(X), y, self.schema_)

    def save(self, folder: str | os.PathLike, overwrite: bool = False) -> Path:
        """Writes the folder that may be shared, as `dpdistill distill` does.

        Raises:
            DataError: the folder cannot be written.
        """
        check_is_fitted(self, "result_")
        return self.result_.save(folder, overwrite)

    def _table_file(self) -> TableFile:
        schema = self.schema
        table_file = TableFile(schema, reviewed=True) if isinstance(schema, TableSchema) else read_reviewed(schema)
        return table_file if self.unit_column is None else with_units(table_file, self.unit_column)
