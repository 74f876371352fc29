"""Plans, owners and a coordinator of tests, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import MEMORY, RunLedger
from dpdistill.recipe.saved import recipe_of
from dpdistill.schema import Schema
from dpdistill.signatures.keys import SigningKey
from dpdistill.storage.records import Records
from dpdistill.together.account import open_account
from dpdistill.together.aggregator import Aggregator
from dpdistill.together.messages import Message, decode, encode
from dpdistill.together.owner import Owner
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.plan import PlanOwner, TogetherPlan
from dpdistill.together.transcript import Transcript

SCHEMA = Schema((4, 4, 1), (0.0, 1.0), ("a", "b"))


def ssh(key: SigningKey) -> str:
    import base64

    return f"ssh-ed25519 {base64.b64encode(key.public.content).decode()}"


def new_keys(names: tuple[str, ...]) -> dict[str, SigningKey]:
    return {name: SigningKey(Ed25519PrivateKey.generate()) for name in names}


def plan_of(
    method: Any, keys: dict[str, SigningKey], schema: Any = SCHEMA, budget: Budget | None = None, **stated: Any
) -> TogetherPlan:
    budget = budget or Budget(1.0)
    held: dict[str, Any] = {
        "recipe": recipe_of(method, 0),
        "schema": schema.to_json(),
        "schedule": calibrate(method.plan(), budget),
        "owners": tuple(PlanOwner(name, ssh(key), 1000) for name, key in keys.items()),
        "dropouts": 0 if len(keys) < 4 else 1,
        "colluders": 1,
        "persons_at": 1,
        "pace": 0.0,
        "address": "localhost:1",
        "certificate": "",
    }
    return TogetherPlan.new(**{**held, **stated})


def random_records(n: int, seed: int = 0, schema: Schema = SCHEMA) -> Records:
    draw = np.random.default_rng(seed)
    X = draw.uniform(0, 1, (n, *schema.shape)).astype(np.float32)
    return Records(X, draw.integers(0, len(schema.classes), n).astype(np.int64), schema)


def split(records: Records, parts: int) -> list[Records]:
    return [replace(records, X=records.X[i::parts], y=records.y[i::parts]) for i in range(parts)]


def is_uniform(words: np.ndarray) -> bool:
    """Whether 64-bit words pass a chi-square test of their bytes at each of the eight places."""
    counts = [np.bincount(words.view(np.uint8).reshape(-1, 8)[:, k], minlength=256) for k in range(8)]
    return min(stats.chisquare(count).pvalue for count in counts) > 1e-4


class Here:
    """Links to owners of this process: messages are encoded and decoded as on a network.

    Args:
        owners: by name; those in `away` do not answer.
    """

    def __init__(self, owners: dict[str, Owner]) -> None:
        self.owners, self.away, self.seen = owners, set[str](), list[tuple[str, Message, Message]]()
        self.change: Callable[[str, Message, Message], Message | None] = lambda name, message, answer: answer

    def ready(self) -> set[str]:
        return set(self.owners) - self.away

    def ask(self, messages: dict[str, Message], seconds: float = 0.0) -> dict[str, Message | None]:
        answers: dict[str, Message | None] = {}
        for name, message in messages.items():
            if name in self.away:
                answers[name] = None
                continue
            answer = self.owners[name].answer(decode(encode(message)))
            answer = decode(encode(answer))
            self.seen.append((name, message, answer))
            answers[name] = self.change(name, message, answer)
        return answers


class Parties:
    """A plan with all of its owners in this process, and its coordinator."""

    def __init__(self, folder: Path, method: Any, parts: list[Records], entropy: Any = None, **stated: Any) -> None:
        self.folder, self.method, self.parts, self.entropy = folder, method, parts, entropy
        names = tuple(f"owner {i:02d}" for i in range(len(parts)))
        self.keys = new_keys(names)
        self.plan = plan_of(method, self.keys, parts[0].schema, **stated)
        self.ledgers = {name: DatasetLedger.begin(folder / f"{name}.ledger", 100.0) for name in names}
        self.links = Here({})
        self.opened: dict[str, Any] = {}
        for name in names:
            self.join(name)

    def join(self, name: str) -> Owner:
        """Starts, or starts again, an owner."""
        place = self.folder / f"{name}.run"
        if name in self.opened:
            self.opened.pop(name).close()
        store = OwnerStore(place, self.plan.run, name)
        part = self.parts[self.plan.names.index(name)]

        def account() -> Any:
            entropy = self.entropy(name) if self.entropy else None
            result = open_account(self.plan, name, part, place, self.ledgers[name], entropy)
            self.opened[name] = result[0]
            return result

        self.links.owners[name] = Owner(self.plan, name, self.keys[name], store, account)
        return self.links.owners[name]

    def roster(self) -> list:
        hellos = [self.links.owners[name].hello(b"") for name in self.plan.names]
        return [[hello["name"], hello["key"], hello["of_key"]] for hello in hellos]

    def start(self) -> Aggregator:
        """Starts all owners, and returns a new coordinator."""
        message = {"kind": "start", "run": self.plan.run, "roster": self.roster()}
        answers = self.links.ask(dict.fromkeys(self.plan.names, message))
        assert {answer["kind"] for answer in answers.values() if answer} == {"ready"}, answers
        return self.coordinator()

    def coordinator(self, place: str = "transcript") -> Aggregator:
        ledger = RunLedger.open(MEMORY, self.plan.recipe, self.plan.schedule, b"")
        transcript = Transcript(self.folder / place, self.plan.run)
        return Aggregator(self.plan, self.method, self.links, ledger, transcript, patience=0.05, wait=0.3)

    def close(self) -> None:
        for each in self.opened.values():
            each.close()
