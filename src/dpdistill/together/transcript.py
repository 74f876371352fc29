"""The coordinator's durable notes: questions, masked words, statements and revealed keys of every round.

All of it may be shown to every owner: it holds what owners sent masked, and the keys that they revealed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpdistill.run.checkpoint import write_synced
from dpdistill.schema import DataError
from dpdistill.together.masks import Attempt, unmasked
from dpdistill.together.messages import Malformed, decode, encode, field
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.statements import RUN_KEY, Contribution, is_signed, sha256

FOLDER = "transcript"


@dataclass(frozen=True)
class SealedRound:
    """The masked words of all owners of a list, and what they stated about them.

    Args:
        attempt: the attempt, whose list never changes.
        statements: a statement of every listed owner, in the order of the list.
        words: masked words, flat, by name.
    """

    attempt: Attempt
    statements: tuple[Contribution, ...]
    words: dict[str, bytes]

    def sum(self, keys: Mapping[str, bytes]) -> np.ndarray:
        """Returns the sum of the shares, flat, int64, from the revealed keys of all listed owners."""
        words = {name: np.frombuffer(each, "<u8").astype(np.uint64) for name, each in self.words.items()}
        return unmasked(words, keys)


class Transcript:
    """The files of a transcript.

    Args:
        folder: the folder; created if it does not exist.
        run: name of the run.
    """

    def __init__(self, folder: Path, run: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._run = folder, run

    def _file(self, t: int, what: str) -> Path:
        return self._folder / f"{what}-{t:06d}.bin"

    def _read(self, t: int, what: str) -> bytes | None:
        path = self._file(t, what)
        return path.read_bytes() if path.exists() else None

    def question(self, t: int) -> bytes | None:
        """Returns the parameters that were asked in a round, or None."""
        return self._read(t, "question")

    def settle_question(self, t: int, params: bytes) -> bytes:
        """Returns the parameters that were asked in a round; stores these if none were."""
        if self.question(t) is None:
            write_synced(self._file(t, "question"), params)
        return self.question(t) or b""

    def seal(self, sealed: SealedRound) -> None:
        """Stores a round whose list will never change."""
        attempt = sealed.attempt
        stated = [each.to_json() for each in sealed.statements]
        fields = {"attempt": attempt.attempt, "names": list(attempt.names), "statements": stated}
        write_synced(self._file(attempt.round, "words"), encode({**fields, **_prefixed(sealed.words)}))

    def sealed(self, t: int) -> SealedRound | None:
        """Returns a round whose list is fixed, or None.

        Raises:
            DataError: a damaged file.
        """
        content = self._read(t, "words")
        if content is None:
            return None
        try:
            stored = decode(content)
            names = tuple(field(stored, "names", list))
            attempt = Attempt(self._run, t, field(stored, "attempt", int), names)
            statements = tuple(Contribution.from_json(each) for each in field(stored, "statements", list))
            return SealedRound(attempt, statements, _of_names(stored, names))
        except (Malformed, ValueError):
            raise DataError(f"Round {t} of the transcript is damaged.") from None

    def reveal(self, t: int, keys: Mapping[str, bytes]) -> None:
        """Stores the revealed keys of a round."""
        write_synced(self._file(t, "keys"), encode(_prefixed(keys)))

    def revealed(self, t: int, names: tuple[str, ...]) -> dict[str, bytes] | None:
        """Returns the revealed keys of a round, or None.

        Raises:
            DataError: a damaged file.
        """
        content = self._read(t, "keys")
        try:
            return None if content is None else _of_names(decode(content), names)
        except Malformed:
            raise DataError(f"The keys of round {t} of the transcript are damaged.") from None

    def settle_roster(self, roster: list) -> list:
        """Returns the stored public keys of the owners; stores these if there are none."""
        path = self._folder / "roster.json"
        if not path.exists():
            write_synced(path, json.dumps(roster).encode())
        return json.loads(path.read_bytes())

    def roster(self) -> list | None:
        """Returns the stored public keys of the owners, or None."""
        path = self._folder / "roster.json"
        return json.loads(path.read_bytes()) if path.exists() else None


def _prefixed(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"of {name}": part for name, part in parts.items()}


def _of_names(stored: dict, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: field(stored, f"of {name}", bytes) for name in names}


def check_round(plan: TogetherPlan, sealed: SealedRound, keys: Mapping[str, bytes], params: bytes) -> str | None:
    """Returns what is wrong with a round of a transcript, or None: its list, signatures, words or keys."""
    names, listed = sealed.attempt.names, tuple(each.name for each in sealed.statements)
    if names != tuple(name for name in plan.names if name in names) or listed != names:
        return "its list is not one of owners of the plan, in order"
    if len(names) < len(plan.owners) - plan.dropouts:
        return "its list is shorter than the plan allows"
    for each in sealed.statements:
        if fault := fault_of(plan, sealed.attempt, each, sealed.words[each.name], sha256(params)):
            return fault
        if sha256(keys[each.name]) != each.mask:
            return f"the key of {each.name!r} is not the one that was promised"
    return None


def fault_of(plan: TogetherPlan, attempt: Attempt, stated: Contribution, words: bytes, params: str) -> str | None:
    """Returns what is wrong with one contribution, or None."""
    if not stated.is_of(attempt, plan.owner(stated.name).public):
        return f"the contribution of {stated.name!r} is not signed by its key"
    if stated.params != params:
        return f"the contribution of {stated.name!r} answers other parameters"
    if stated.words != sha256(words):
        return f"the words of {stated.name!r} are not those that it signed"
    return None


def fault_of_key(plan: TogetherPlan, name: str, public: str, signature: str) -> str | None:
    """Returns what is wrong with an owner's key of a run, or None."""
    if name not in plan.names or not is_signed(plan.owner(name).public, signature, RUN_KEY, [plan.run, name, public]):
        return f"the key of {name[:64]!r} in this run is not signed by its key in the plan"
    return None
