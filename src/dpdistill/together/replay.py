"""Checks that a result follows from a transcript: every sum, every signature, and the synthetic records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from dpdistill.certificate.build import read_certificate
from dpdistill.certificate.check import Check
from dpdistill.errors import CertificateError
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method
from dpdistill.query import Params, Query, Release
from dpdistill.recipe.parts import implement
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import run_rounds
from dpdistill.schema import DataError
from dpdistill.together.aggregator import excess_of, steps_of
from dpdistill.together.messages import Malformed, pack_params, unpack_params
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.transcript import Transcript, check_round

_CLOSE = 1e-3
"""Tolerance for numbers that another machine computed: low bits differ between processors."""


class _Replay:
    """Answers queries from a transcript, after checking each round."""

    def __init__(self, plan: TogetherPlan, transcript: Transcript, own: OwnerStore | None) -> None:
        self._plan, self._transcript, self._own = plan, transcript, own
        self.listed = 0
        """Rounds whose list has the owner of the notes."""

    def release(self, t: int, query: Query, params: Params) -> Release:
        """Returns the sum of a round.

        Raises:
            DataError: a round that is missing or wrong.
        """
        sealed, asked = self._transcript.sealed(t), self._transcript.question(t)
        keys = None if sealed is None else self._transcript.revealed(t, sealed.attempt.names)
        if sealed is None or asked is None or keys is None:
            raise DataError(f"Round {t} is not in the transcript.")
        if fault := check_round(self._plan, sealed, keys, asked):
            raise DataError(f"Round {t} of the transcript is wrong: {fault}.")
        _check_asked(t, asked, jax.tree.map(np.asarray, params))
        if self._own is not None:
            self._check_own(t, sealed.attempt.content(), [each.to_json() for each in sealed.statements])
        event = self._plan.schedule.event(t)
        rows = self._plan.schedule.budget.rows_per_unit
        shape, step, stddev = steps_of(query, params, self._plan.facts, event.noise_multiplier, rows)
        stddev *= excess_of(self._plan, sealed.attempt)
        return Release(t, sealed.sum(keys).reshape(shape).astype(np.float64) * step, stddev, event)

    def _check_own(self, t: int, attempt: bytes, statements: list[list[str]]) -> None:
        """Compares a round with the notes of an owner."""
        assert self._own is not None
        noted = self._own.unmasked(t)
        if noted is None and self._own.contribution(attempt) is None:
            return  # this owner was not in the list
        if noted != attempt or self._own.contribution(attempt) not in statements:
            raise DataError(f"Round {t} of the transcript has another contribution of yours than the one you sent.")
        self.listed += 1


def _check_asked(t: int, asked: bytes, params: Params) -> None:
    """Compares the parameters that were asked with those that follow from the earlier sums."""
    if asked == pack_params(params):
        return
    try:
        stated = unpack_params(asked, params)
    except Malformed:
        raise DataError(f"Round {t} asked for parameters of another form.") from None
    for found, expected in zip(jax.tree.leaves(stated), jax.tree.leaves(params), strict=True):
        if not np.allclose(found.astype(np.float64), expected.astype(np.float64), rtol=_CLOSE, atol=_CLOSE):
            raise DataError(f"Round {t} asked for parameters that do not follow from the earlier sums.")


def check_transcript(
    plan: TogetherPlan, transcript: Path, folder: Path, run_dir: Path | None = None, name: str = ""
) -> Iterator[Check]:
    """Yields checks that a result follows from a transcript, and that an owner's contributions are in it.

    Args:
        plan: the checked plan.
        transcript: a copy of the coordinator's folder of this name.
        folder: the result.
        run_dir: the owner's folder of the run; None leaves its contributions out.
        name: the owner.
    """
    method = implement(plan.part(), Method)
    own = None if run_dir is None else OwnerStore(run_dir, plan.run, name)
    replay = _Replay(plan, Transcript(transcript, plan.run), own)
    try:
        certificate = read_certificate(folder)
        stated = (certificate.get("summation") or {}).get("plan"), certificate.get("recipe")
        same = stated == (plan.run, plan.recipe)
        yield Check("plan", same, "The certificate is of this plan." if same else "The certificate is of another plan.")
        seed, rounds = plan.recipe["seed"], plan.schedule.rounds
        state = run_rounds(method, replay, Store(None), rounds, seed, plan.facts, lambda *_: None)
        yield Check("transcript", True, f"The sums of all {rounds} rounds follow from what the owners signed.")
        if own is not None and run_dir is not None:
            paid = len(RunLedger.read(run_dir).events)
            detail = f"Your contributions are in {replay.listed} rounds; your ledger has paid for {paid} of {rounds}."
            yield Check("own", paid <= rounds, detail)
        yield _compared(read_distilled(folder), method.finish(state, plan.facts))
    except (CertificateError, DataError) as error:
        yield Check("transcript", False, str(error))
    finally:
        if own is not None:
            own.close()


def _compared(found: Distilled, expected: Distilled) -> Check:
    """Returns the check of synthetic records."""
    if found.X.shape != expected.X.shape or not np.array_equal(found.y, expected.y):
        return Check("records", False, "The synthetic records are others than those that follow from the sums.")
    if np.array_equal(found.X, expected.X):
        return Check("records", True, "The synthetic records follow from the sums, bit for bit.")
    gap = float(np.abs(found.X.astype(np.float64) - expected.X).max())
    detail = (
        f"The synthetic records differ from those that this machine computes by at most {gap:.3g} (of a range of 2)."
    )
    return Check("records", True if gap < _CLOSE else None, detail)
