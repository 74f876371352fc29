"""An owner: answers a coordinator with masked sums of its records, and refuses whatever the plan does not promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method
from dpdistill.private.share import ShareCurator
from dpdistill.query import Params, Query
from dpdistill.recipe.parts import implement
from dpdistill.signatures.keys import SigningKey
from dpdistill.storage.records import Unshown
from dpdistill.together.masks import KEY_BYTES, Attempt, masked, own_key, pair_key
from dpdistill.together.messages import Malformed, Message, field, unpack_params
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.questions import Questions
from dpdistill.together.statements import CONTRIBUTION, HELLO, RUN_KEY, Contribution, is_signed, sha256, signed

FAILED = "could not answer; its own terminal says why"
"""Sentence to the coordinator about every failure that may depend on an owner's machine, ledger or records."""


class Refusal(Exception):
    """A request that the owner refuses, in a sentence of public facts."""


class Owner(Unshown):
    """One owner's side of the protocol, without any network.

    Args:
        plan: the checked plan.
        name: this owner in the plan.
        key: the private key of the plan's public one.
        store: the owner's durable notes.
        account: pays in the owner's ledgers, once, and returns the run's ledger and the curator of this owner's share.

    Guarantee:
        What leaves in a round is a function of the share, which the ledger committed before, of masks, and of public
        facts. The key of the owner's own mask leaves for one list a round, of at least n - d owners, after all of them
        signed that list: so the sum over that list is all that a coordinator with at most c of them learns.
    """

    def __init__(
        self,
        plan: TogetherPlan,
        name: str,
        key: SigningKey,
        store: OwnerStore,
        account: Callable[[], tuple[RunLedger, ShareCurator]],
    ) -> None:
        self._plan, self.name, self._key, self._store, self._account = plan, name, key, store, account
        self._x25519 = X25519PrivateKey.from_private_bytes(store.x25519)
        self._opened: tuple[RunLedger, ShareCurator] | None = None
        self.failure: Exception | None = None
        """The error of this machine, ledger or curator that ended an answer; for the owner's terminal."""
        self._keys = {owner.name: owner.public for owner in plan.owners}
        self._questions: Questions | None = None

    def hello(self, challenge: bytes) -> Message:
        """Returns the first message, with the owner's signature of the coordinator's challenge."""
        run, public = self._plan.run, self._x25519.public_key().public_bytes_raw().hex()
        return {
            "kind": "hello",
            "version": self._plan.version,
            "run": run,
            "name": self.name,
            "key": public,
            "of_key": signed(self._key, RUN_KEY, [run, self.name, public]),
            "of_challenge": signed(self._key, HELLO, [run, self.name, public, challenge.hex()]),
        }

    def answer(self, message: Message) -> Message:
        """Returns the answer to a message of the coordinator; never an error text about records or ledgers."""
        actions = {"start": self._start, "contribute": self._contribute, "reveal": self._reveal}
        try:
            action = actions.get(field(message, "kind", str))
            if action is None:
                raise Malformed("a message of no known kind")
            if field(message, "run", str) != self._plan.run:
                raise Refusal("has another plan")
            return action(message)
        except Malformed as error:
            return {"kind": "refused", "sentence": f"received {error}"}
        except Refusal as error:
            return {"kind": "refused", "sentence": str(error)}
        except Exception as error:
            self.failure = error
            return {"kind": "refused", "sentence": FAILED}

    def _start(self, message: Message) -> Message:
        """Settles all owners' keys of this run, then pays."""
        roster = field(message, "roster", list)
        keys: dict[str, bytes] = {}
        for entry in roster:
            if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(each, str) for each in entry):
                raise Malformed("a roster of another form")
            name, public, signature = entry
            stated = [self._plan.run, name, public]
            if name not in self._keys or not is_signed(self._keys[name], signature, RUN_KEY, stated):
                raise Refusal(f"found no signature of {name[:64]!r} on its key of this run")
            keys[name] = bytes.fromhex(public)
        if tuple(keys) != self._plan.names or len(roster) != len(keys) or len({*keys.values()}) != len(keys):
            raise Refusal("expected one key of every owner of the plan")
        if keys[self.name] != self._x25519.public_key().public_bytes_raw():
            raise Refusal("joined this run from another folder")
        if not self._store.settle_roster(roster):
            raise Refusal("knows other keys of the owners of this run")
        self._open()
        return {"kind": "ready"}

    def _open(self) -> tuple[RunLedger, ShareCurator]:
        if self._opened is None:
            self._opened = self._account()
        return self._opened

    def _attempt(self, message: Message) -> Attempt:
        """Returns the checked attempt of a message."""
        names = field(message, "names", list)
        attempt = Attempt(self._plan.run, field(message, "round", int), field(message, "attempt", int), tuple(names))
        expected = tuple(name for name in self._plan.names if name in names)
        if attempt.names != expected or self.name not in names:
            raise Refusal("expected a list of owners of the plan, in order, with this owner")
        if len(names) < len(self._plan.owners) - self._plan.dropouts:
            raise Refusal(f"expected a list of at least {len(self._plan.owners) - self._plan.dropouts} owners")
        if not 0 <= attempt.round < self._plan.schedule.rounds or attempt.attempt < 0:
            raise Refusal(f"expected a round of the plan's {self._plan.schedule.rounds}")
        if self._opened is None:
            raise Refusal("has not started yet")
        return attempt

    def _contribute(self, message: Message) -> Message:
        """Draws, commits and masks this owner's share of a round; the share of a round is drawn once."""
        attempt, content = self._attempt(message), field(message, "params", bytes)
        noted = self._store.unmasked(attempt.round)
        if noted is not None and noted != attempt.content():
            raise Refusal(f"has unmasked round {attempt.round} with another list already")
        query, like = self._question(attempt.round)
        params, digest = unpack_params(content, like), sha256(content)
        if not self._store.settle_question(attempt.round, digest):
            raise Refusal(f"has answered round {attempt.round} with other parameters already")
        share = self._share(attempt.round, query, params)
        key, keys = own_key(self._store.secret, attempt, share), self._roster()
        pairs = {name: pair_key(self._x25519, keys[name], attempt) for name in attempt.names if name != self.name}
        words = masked(share, key, pairs, self.name).astype("<u8").tobytes()
        stated = Contribution(self.name, digest, sha256(words), sha256(key))
        stated = replace(stated, signature=signed(self._key, CONTRIBUTION, stated.stated(attempt)))
        self._store.keep_contribution(attempt.content(), stated.to_json())
        return {"kind": "contribution", "statement": stated.to_json(), "words": words}

    def _reveal(self, message: Message) -> Message:
        """Reveals the key of this owner's own mask, after all listed owners signed the list, once a round."""
        attempt = self._attempt(message)
        try:
            stated = [Contribution.from_json(each) for each in field(message, "statements", list)]
        except ValueError:
            raise Malformed("statements of another form") from None
        mine = self._store.contribution(attempt.content())
        if mine is None or mine not in [each.to_json() for each in stated]:
            raise Refusal("did not contribute to this attempt")
        if tuple(each.name for each in stated) != attempt.names:
            raise Refusal("expected the statements of all listed owners")
        for each in stated:
            if not each.is_of(attempt, self._keys[each.name]) or each.params != self._store.question(attempt.round):
                raise Refusal(f"found no signature of {each.name!r} on this question and list")
        key = own_key(self._store.secret, attempt, self._share(attempt.round))
        if len(key) != KEY_BYTES or sha256(key) != Contribution.from_json(mine).mask:
            raise Refusal("has another share than the one that it contributed")
        if not self._store.unmask(attempt.round, attempt.content()):
            raise Refusal(f"has unmasked round {attempt.round} with another list already")
        return {"kind": "revealed", "key": key}

    def _roster(self) -> dict[str, bytes]:
        return {name: bytes.fromhex(public) for name, public, _ in self._store.roster() or ()}

    def _question(self, t: int) -> tuple[Query, Params]:
        if self._questions is None:
            method = implement(self._plan.part(), Method)
            self._questions = Questions(method, self._plan.facts, self._plan.recipe["seed"])
        return self._questions[t]

    def _share(self, t: int, query: Query | None = None, params: Params = None) -> np.ndarray:
        """Returns this owner's noised integer sum: drawn and committed once, read from the ledger afterwards.

        Rounds that this owner missed are committed without a value: they are paid, and never drawn.
        """
        ledger, curator = self._open()
        if t < ledger.resume_at - 1:
            raise Refusal(f"has answered later rounds than {t} already")
        if query is None:
            stored = ledger.lookup(t)
            if stored is None:
                raise Refusal(f"did not contribute to round {t}")
            return stored.value
        for missed in range(ledger.resume_at, t):
            ledger.commit(missed, self._plan.schedule.event(missed), np.zeros(0, np.int64), 1.0)
        value = curator.release(t, query, params).value
        if not value.size or value.dtype != np.int64:
            raise Refusal(f"missed round {t}, which cannot be made up for")
        ledger.drop_values(t)
        return value
