"""The coordinator's place of the curator: asks owners, adds up masked words, and learns the sum of a round alone."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any, Protocol

import jax
import numpy as np

from dpdistill.errors import CuratorError, Unanswered
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method
from dpdistill.private.checks import blocks_of, check_query
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import step_and_sensitivity
from dpdistill.query import ByValue, LinearQuery, Params, Query, Release
from dpdistill.schema import AnySchema
from dpdistill.together.masks import KEY_BYTES, Attempt
from dpdistill.together.messages import Malformed, Message, field, pack_params
from dpdistill.together.plan import MOST_RECORDS, TogetherPlan
from dpdistill.together.questions import Questions
from dpdistill.together.statements import Contribution, sha256
from dpdistill.together.transcript import SealedRound, Transcript, fault_of

LOG = logging.getLogger("dpdistill")
MOST_LINEAR = 1 << 24
"""Most numbers of a linear query's sum: integers stay below 2^62."""
_PAUSE = 0.2


class Links(Protocol):
    """Connections to owners; the only way to them."""

    def ready(self) -> set[str]:
        """Returns the names of connected owners that have started."""
        ...

    def ask(self, messages: dict[str, Message], seconds: float) -> dict[str, Message | None]:
        """Returns the answers by name; None of an owner that is not connected or is lost before it answers."""
        ...


class Aggregator:
    """Answers queries by sums over the records of several owners, in place of a curator.

    Args:
        plan: the checked plan.
        method: its method.
        links: connections to the owners.
        ledger: ledger of the run at the coordinator: the releases.
        transcript: the coordinator's durable notes.
        patience: seconds to wait for a round's answers before a shorter list is tried.
        wait: seconds to wait for owners without whom a round cannot be made, before the run stops.

    Guarantee:
        Post-processing of what owners sent: this class protects nothing, and needs not be trusted.
    """

    noise_kind = "operating-system entropy"

    def __init__(
        self,
        plan: TogetherPlan,
        method: Method,
        links: Links,
        ledger: RunLedger,
        transcript: Transcript,
        patience: float = 600.0,
        wait: float = 86400.0,
    ) -> None:
        self._plan, self._links, self._ledger = plan, links, ledger
        self._transcript, self._patience, self._wait, self._facts = transcript, patience, wait, plan.facts
        self._questions = Questions(method, self._facts, plan.recipe["seed"])

    def release(self, t: int, query: Query, params: Params) -> Release:
        """Returns the sum of round t: asked once, replayed from the ledger afterwards.

        Raises:
            CuratorError: a query that owners would not build from the recipe, or an owner that refuses.
            Unanswered: too few owners; the run can be resumed.
        """
        stored = self._ledger.lookup(t)
        if stored is not None:
            return stored
        expected, like = self._questions[t]
        content = pack_params(jax.tree.map(np.asarray, params))
        if ByValue(expected) != ByValue(query) or len(content) != len(pack_params(like)):
            raise CuratorError(f"The query of round {t} follows from releases: this method cannot be used together.")
        content = self._transcript.settle_question(t, content)
        event = self._plan.schedule.event(t)
        shape, step, stddev = steps_of(query, params, self._facts, event.noise_multiplier, self._rows_per_unit)
        sealed = self._transcript.sealed(t) or self._sealed(t, content, math.prod(shape))
        total = sealed.sum(self._keys(sealed)).reshape(shape)
        stddev *= excess_of(self._plan, sealed.attempt)
        return self._ledger.commit(t, event, total.astype(np.float64) * step, stddev)

    @property
    def _rows_per_unit(self) -> int:
        return self._plan.schedule.budget.rows_per_unit

    def _sealed(self, t: int, params: bytes, numbers: int) -> SealedRound:
        """Returns the contributions of all owners of a list, after as many attempts as it takes."""
        least, number, names = len(self._plan.owners) - self._plan.dropouts, 0, self._plan.names
        until = time.monotonic() + self._wait
        while True:
            names = self._waited_for(t, names, least, until)
            attempt = Attempt(self._plan.run, t, number, names)
            asked = {**_message("contribute", attempt), "params": params}
            answers = self._answers(dict.fromkeys(names, asked))
            found = {name: self._contribution(attempt, name, answers[name], params, numbers) for name in names}
            kept = {name: each for name, each in found.items() if each is not None}
            if len(kept) == len(names):
                words = {name: words for name, (_, words) in kept.items()}
                sealed = SealedRound(attempt, tuple(stated for stated, _ in kept.values()), words)
                self._transcript.seal(sealed)
                return sealed
            missing = ", ".join(name for name in names if name not in kept)
            LOG.warning("round %d: no answer of %s; nothing was unmasked", t, missing)
            if len(kept) >= least:
                names, number = tuple(kept), number + 1
            elif time.monotonic() < until:
                names = self._plan.names
            else:
                raise Unanswered(
                    f"Round {t} needs {least} owners, and {missing} did not answer within {self._patience:g} seconds: "
                    "nothing is lost; start the coordinator again, with a larger --patience if a round takes longer."
                )

    def _waited_for(self, t: int, names: Iterable[str], least: int, until: float) -> tuple[str, ...]:
        """Returns the owners of a list that are connected: all of them, or after some patience enough of them."""
        patient = min(until, time.monotonic() + self._patience)
        while True:
            there = self._links.ready()
            found = tuple(name for name in names if name in there)
            now = time.monotonic()
            if len(found) == len([*names]) or (now >= patient and len(found) >= least):
                return found
            if now >= until:
                missing = ", ".join(name for name in self._plan.names if name not in there)
                raise Unanswered(
                    f"Round {t} needs {least} owners, and {missing} did not connect: nothing is lost; start the "
                    "coordinator again with the same command when they are back."
                )
            time.sleep(min(_PAUSE, self._patience))

    def _answers(self, messages: dict[str, Message]) -> dict[str, Message | None]:
        """Returns the owners' answers; raises for an owner that refuses."""
        answers = self._links.ask(messages, self._patience)
        for name, answer in answers.items():
            if answer is not None and answer.get("kind") == "refused":
                sentence = "".join(c for c in str(answer.get("sentence"))[:200] if c.isprintable())
                raise CuratorError(f"Owner {name} {sentence}.")
        return answers

    def _contribution(
        self, attempt: Attempt, name: str, answer: Message | None, params: bytes, numbers: int
    ) -> tuple[Contribution, bytes] | None:
        """Returns a checked contribution; None if there is none.

        Raises:
            CuratorError: garbage.
        """
        if answer is None:
            return None
        try:
            stated = Contribution.from_json(field(answer, "statement", list))
            words = field(answer, "words", bytes)
        except (Malformed, ValueError):
            raise CuratorError(f"Owner {name} sent an answer of another form in round {attempt.round}.") from None
        fault = fault_of(self._plan, attempt, stated, words, sha256(params)) if stated.name == name else "another name"
        if fault is not None or len(words) != 8 * numbers:
            fault = fault or f"{len(words)} bytes instead of {8 * numbers}"
            raise CuratorError(f"Owner {name} sent garbage in round {attempt.round}: {fault}.")
        return stated, words

    def _keys(self, sealed: SealedRound) -> dict[str, bytes]:
        """Returns the revealed keys of a sealed round; waits for owners that are lost, since its list never changes."""
        attempt, until = sealed.attempt, time.monotonic() + self._wait
        stated = {each.name: each for each in sealed.statements}
        keys = self._transcript.revealed(attempt.round, attempt.names) or {}
        asked = {**_message("reveal", attempt), "statements": [each.to_json() for each in sealed.statements]}
        while missing := [name for name in attempt.names if name not in keys]:
            there = self._links.ready()
            for name, answer in self._answers({name: asked for name in missing if name in there}).items():
                key = None if answer is None else answer.get("key")
                if key is None:
                    continue
                if not isinstance(key, bytes) or len(key) != KEY_BYTES or sha256(key) != stated[name].mask:
                    raise CuratorError(f"Owner {name} revealed another key than promised in round {attempt.round}.")
                keys[name] = key
            if all(name in keys for name in attempt.names):
                break
            if time.monotonic() >= until:
                lost = ", ".join(name for name in missing if name not in keys)
                raise Unanswered(
                    f"Round {attempt.round} waits for {lost}, who signed its list: nothing is lost; start the "
                    "coordinator again with the same command when they are back."
                )
            time.sleep(_PAUSE)
        self._transcript.reveal(attempt.round, keys)
        return keys


def _message(kind: str, attempt: Attempt) -> dict[str, Any]:
    return {
        "kind": kind,
        "run": attempt.run,
        "round": attempt.round,
        "attempt": attempt.attempt,
        "names": list(attempt.names),
    }


def excess_of(plan: TogetherPlan, attempt: Attempt) -> float:
    """Returns the standard deviation of a sum's noise, divided by the accounted one: more owners add more noise."""
    return math.sqrt(len(attempt.names) / plan.shares)


def steps_of(
    query: Query, params: Params, schema: AnySchema, noise_multiplier: float, rows_per_unit: int
) -> tuple[tuple[int, ...], float, float]:
    """Returns (shape of a sum, length of a grid step, standard deviation of the event): public facts.

    Raises:
        CuratorError: a query that a curator refuses, or whose integer sums could overflow.
    """
    shape = check_query(query, params, schema, noise_multiplier, rows_per_unit=rows_per_unit)
    if isinstance(query, LinearQuery):
        if math.prod(shape) > MOST_LINEAR:
            raise CuratorError(f"Expected sums of at most 2^24 numbers for this method; got {math.prod(shape):,}.")
        step, sensitivity = step_and_sensitivity(query.clip_norm, math.prod(shape))
        return shape, step, noise_multiplier * sensitivity
    d = math.prod(shape) * blocks_of(query, schema, rows_per_unit)
    grid = make_grid(query.clip_norm, noise_multiplier, d, MOST_RECORDS)
    shape = (len(schema.classes), *shape) if query.by_class else shape
    return shape, grid.step, noise_multiplier * query.clip_norm
