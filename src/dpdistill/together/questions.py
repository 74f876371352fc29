"""The query of a round, from the plan's recipe alone: queries never travel, only the arrays of their parameters do."""

from __future__ import annotations

from typing import Any

import jax

from dpdistill.method import Method
from dpdistill.query import Params, Query
from dpdistill.schema import AnySchema


class Questions:
    """Queries of a method by round.

    Args:
        method: the plan's method.
        schema: the plan's public facts.
        seed: the plan's public seed.
    """

    def __init__(self, method: Method, schema: AnySchema, seed: int) -> None:
        self._method, self._start = method, method.init(jax.random.key(seed), schema)
        self._one_kind = len(method.plan()) == 1 and "round" not in dict.fromkeys(self._start or ())

    def __getitem__(self, t: int) -> tuple[Query, Params]:
        """Returns the query of round t, and arrays of the shapes and types of its parameters; their values differ."""
        state: Any = self._start if self._one_kind else self._method.at_round(self._start, t)
        return self._method.ask(state)
