"""The plan of a run of several owners: one file that all of them have before anything is paid, named by its SHA-256."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dpdistill import __version__
from dpdistill.accounting.noise_shares import check_aliasing, log10_aliasing, noise_shares
from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.public_inputs import DECLARED, ENCODER, public_inputs
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.fields import Recipe
from dpdistill.schema import AnySchema, DataError, schema_from_json
from dpdistill.signatures.keys import ED25519, PublicKey
from dpdistill.storage.files import reading, show
from dpdistill.together.statements import sha256

FORMAT = "dpdistill together 1"
MOST_OWNERS = 256
MOST_RECORDS = 2**37
"""Largest sum of all owners' numbers of records: K <= 2^24 steps each, so that integer sums stay below 2^61."""
MOST_PLAN = 1 << 24
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


@dataclass(frozen=True)
class PlanOwner:
    """An owner in a plan.

    Args:
        name: 1 to 64 letters, digits, spaces, dots, hyphens or underscores.
        key: its public key in OpenSSH's format, "ssh-ed25519 AAAA...".
        most_records: a public number that its number of records does not exceed.
    """

    name: str
    key: str
    most_records: int

    @property
    def public(self) -> PublicKey:
        """Returns the key.

        Raises:
            DataError: no Ed25519 key.
        """
        kind, _, text = self.key.partition(" ")
        if kind != ED25519:
            raise DataError(
                f"Expected an Ed25519 key of the owner {self.name[:64]!r}: `dpdistill key new FILE` makes one."
            )
        return PublicKey.parse(kind, text.split(" ")[0], f"of the owner {self.name[:64]!r}")


@dataclass(frozen=True)
class TogetherPlan:
    """Everything that is fixed before a run of several owners: public facts only.

    Args:
        recipe: the saved recipe (`recipe_of`), with its seed.
        schema: public facts of all owners' records, as JSON values.
        schedule: the noise of every round.
        owners: all owners, at least 3.
        dropouts: d, owners that may be missing in the sum of a round.
        colluders: c, owners that may collude with the coordinator.
        persons_at: largest number of owners at which one person may have records.
        pace: seconds: answers leave an owner at whole multiples of it, so that their times tell little about records.
        address: host:port of the coordinator.
        certificate: the coordinator's TLS certificate, PEM.
        version: version of dpdistill; all parties have the same.
        nonce: random digits, so that no two plans are equal.

    Raises:
        DataError: contradicting or unusable statements; see `check` for the noise.
    """

    recipe: dict
    schema: dict
    schedule: Schedule
    owners: tuple[PlanOwner, ...]
    dropouts: int
    colluders: int
    persons_at: int
    pace: float
    address: str
    certificate: str
    version: str = __version__
    nonce: str = ""

    def __post_init__(self) -> None:
        for name in ("recipe", "schema"):  # lists for tuples, as in the file
            object.__setattr__(self, name, json.loads(json.dumps(getattr(self, name))))

    @classmethod
    def new(cls, **stated: Any) -> TogetherPlan:
        """Returns a plan with a fresh nonce, after checking it."""
        plan = cls(**stated, nonce=secrets.token_hex(16))
        plan.check()
        return plan

    @cached_property
    def content(self) -> bytes:
        """Returns the bytes of the file."""
        held = {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}
        held |= {"schedule": json.loads(self.schedule.to_json()), "owners": [vars(owner) for owner in self.owners]}
        return f"{json.dumps({'format': FORMAT, **held}, indent=2, allow_nan=False)}\n".encode()

    @cached_property
    def run(self) -> str:
        """Returns the name of the run: the SHA-256 of the plan, 64 hexadecimal digits."""
        return sha256(self.content)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all owners, in order."""
        return tuple(owner.name for owner in self.owners)

    @property
    def shares(self) -> int:
        """Returns n - d - c: each owner adds the variance of a round divided by it."""
        return noise_shares(len(self.owners), self.dropouts, self.colluders)

    @property
    def most_records(self) -> int:
        """Returns the sum of the owners' public numbers of records."""
        return sum(owner.most_records for owner in self.owners)

    @property
    def facts(self) -> AnySchema:
        """Returns the schema."""
        return schema_from_json(self.schema)

    def part(self) -> Recipe:
        """Returns the recipe without the code that computes."""
        return from_fields(self.recipe["method"], self.recipe["fields"])

    def aliasing(self) -> float | None:
        """Returns log10 of what delta grows by, because shares are rounded one by one; None for nothing."""
        sigmas, epsilon = self.schedule.noise_multipliers, self.schedule.budget.epsilon
        return log10_aliasing(sigmas, epsilon, self.shares, self.part().linear)

    def owner(self, name: str) -> PlanOwner:
        """Returns an owner.

        Raises:
            DataError: the plan has no such owner.
        """
        for owner in self.owners:
            if owner.name == name:
                return owner
        raise DataError(f"The plan has no owner {name[:64]!r}; it has {', '.join(self.names)}.")

    def check(self) -> None:
        """Refuses a plan that is not safe or that this version cannot carry out; every party calls it.

        Raises:
            DataError: in one sentence.
        """
        if self.version != __version__:
            raise DataError(
                f"The plan was made with dpdistill {self.version[:40]}; here is {__version__}: all parties "
                "need one version."
            )
        names = [owner.name for owner in self.owners]
        for owner in self.owners:
            if not _NAME.fullmatch(owner.name) or type(owner.most_records) is not int or owner.most_records < 1:
                raise DataError(
                    f"Expected an owner's name of letters and digits, and most_records >= 1; got {owner.name[:64]!r}, "
                    f"{owner.most_records!r:.20}."
                )
        if names != sorted(set(names)) or len({owner.public for owner in self.owners}) != len(names):
            raise DataError("Expected owners in the order of their names, each with a name and a key of its own.")
        if len(names) > MOST_OWNERS or self.most_records > MOST_RECORDS:
            raise DataError(f"Expected at most {MOST_OWNERS} owners, with at most 2^37 records together.")
        if type(self.persons_at) is not int or not 1 <= self.persons_at <= len(names):
            raise DataError(f"Expected 1 <= persons_at={self.persons_at!r:.20} <= {len(names)} owners.")
        if not 0.0 <= self.pace <= 3600.0:
            raise DataError(f"Expected 0 <= pace={self.pace} <= 3600 seconds.")
        self._check_noise()

    def _check_noise(self) -> None:
        recipe = self.part()
        if not recipe.private:
            raise DataError(f"Method {recipe.name} has no private form: owners cannot use it together.")
        given = [each.kind for each in public_inputs(self.recipe)]
        if ENCODER in given or "declared images" in given:
            raise DataError(
                f"Expected a recipe without {DECLARED} and without encoders from files: owners do not exchange files."
            )
        if recipe.plan() != self.schedule.stages:
            raise DataError("The plan's schedule has other rounds than its recipe.")
        try:
            noise_shares(len(self.owners), self.dropouts, self.colluders)
            check_aliasing(self.aliasing())
        except ValueError as error:
            raise DataError(str(error)) from None
        budget = self.schedule.budget
        if not self.schedule.epsilon() <= budget.epsilon * (1.0 + 1e-6):
            raise DataError(f"The plan's rounds cost more than its epsilon = {budget.epsilon:g}.")

    def write(self, path: Path) -> None:
        """Writes the file, which must not exist.

        Raises:
            DataError: it exists or cannot be written.
        """
        try:
            with path.open("xb") as file:
                file.write(self.content)
        except OSError as error:
            raise DataError(f"The plan {show(path)} cannot be written: {error.strerror}.") from None

    @classmethod
    def read(cls, path: Path) -> TogetherPlan:
        """Returns a plan from its file, after checking it.

        Raises:
            DataError: no plan, or one that is not accepted.
        """
        if not path.is_file() or path.stat().st_size > MOST_PLAN:
            raise DataError(f"Expected a plan at {show(path)}: `dpdistill together plan` writes one.")
        with reading(path):
            content = path.read_bytes()
        plan = cls.parse(content, show(path))
        plan.check()
        return plan

    @classmethod
    def parse(cls, content: bytes, where: str) -> TogetherPlan:
        """Returns the plan of these bytes, unchecked.

        Raises:
            DataError: bytes that `content` does not write.
        """
        try:
            data = json.loads(content)
            if data.pop("format") != FORMAT:
                raise ValueError
            data["schedule"] = Schedule.from_json(json.dumps(data["schedule"]))
            data["owners"] = tuple(PlanOwner(**owner) for owner in data["owners"])
            plan = cls(**data)
            if plan.content != content:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{where} is not a plan of this version: `dpdistill together plan` writes one.") from None
        return plan

    def sentences(self) -> list[str]:
        """Returns the plan in words, for an owner to accept or refuse."""
        budget, n = self.schedule.budget, len(self.owners)
        unit = "one record" if budget.unit is None else f"one {budget.unit}"
        at_k = f" A person with records at {self.persons_at} owners has {self.persons_at} times mu." * (
            self.persons_at > 1
        )
        return [
            f"Run {self.run} of {n} owners. Their keys, which you compare with the owners themselves:",
            *(
                f"  {owner.name}: {owner.public.fingerprint}, at most {owner.most_records:,} records"
                for owner in self.owners
            ),
            f"Method {self.recipe['method']}, {self.schedule.rounds} rounds; "
            f"epsilon {budget.epsilon:g} at delta {budget.delta:g}, {budget.adjacency}, for {unit} of any owner.{at_k}",
            f"Up to {self.dropouts} owners may drop out of a round, and up to {self.colluders} may collude with the "
            f"coordinator: each owner adds 1/{self.shares} of a round's variance.",
            f"The coordinator is at {self.address}; it learns the sum over all owners of a list, and no owner's own.",
        ]
