"""The documents that every shared folder carries for other people's catalogues, and how they are compared with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dpdistill.data.atomic import write_atomically
from dpdistill.data.folder import CARD, CROISSANT, DEPLOYMENT, MAX_JSON, read_json
from dpdistill.export import card, croissant, deployment
from dpdistill.export.publisher import TO_FILL_IN, Publisher
from dpdistill.report.folder import Folder, read_folder
from dpdistill.report.guarantee import read_guarantee
from dpdistill.schema import DataError


def croissant_text(folder: Folder, publisher: Publisher) -> str:
    """croissant.json as text."""
    return json.dumps(croissant.describe(folder, publisher), indent=2, ensure_ascii=False) + "\n"


def deployment_text(folder: Folder, publisher: Publisher) -> str:
    """deployment.yaml as text.

    Raises:
        DataError: the set has no guarantee to register.
    """
    return yaml.safe_dump(deployment.describe(folder, publisher), sort_keys=False, allow_unicode=True, width=100)


DOCUMENTS: dict[str, Callable[[Folder, Publisher], str]] = {
    CROISSANT: croissant_text,
    CARD: card.describe,
    DEPLOYMENT: deployment_text,
}
"""File name -> its text."""


def documents_of(folder: Folder) -> dict[str, str]:
    """The documents of a folder by file name: deployment.yaml only with a guarantee, which it is about."""
    held = read_guarantee(folder.certificate).holds
    return {name: text(folder, Publisher()) for name, text in DOCUMENTS.items() if held or name != DEPLOYMENT}


def write_documents(folder: Path | str) -> list[Path]:
    """Writes croissant.json, README.md and, with a guarantee, deployment.yaml into a shared folder.

    Args:
        folder: holds certificate.json, recipe.json and synthetic.npz.

    Returns:
        What was written.

    Raises:
        DataError: a file that is missing or cannot be used.
    """
    written = []
    for name, text in documents_of(read_folder(folder)).items():
        written.append(Path(folder) / name)
        write_text(written[-1], text)
    return written


def renew_documents(folder: Path | str) -> list[str]:
    """Writes the documents again once scores.json has been added to a shared folder.

    Args:
        folder: as for `write_documents`, with scores.json.

    Returns:
        Names of documents that somebody completed, which are left as they are.

    Raises:
        DataError: a file that is missing or cannot be used.
    """
    path, read, left = Path(folder), read_folder(folder), []
    now, before = documents_of(read), documents_of(replace(read, scores=None))
    for name in now:
        if not (path / name).is_file():
            continue
        content = (path / name).read_bytes()
        if content == _encoded(before[name]):
            write_text(path / name, now[name])
        elif content != _encoded(now[name]):
            left.append(name)
    return left


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def write_text(path: Path, text: str) -> None:
    """A text as a file in UTF-8, in one step."""
    content = _encoded(text)
    write_atomically(path, lambda file: file.write(content))


def compare(path: Path, folder: Folder) -> Iterator[tuple[str, bool | None, str]]:
    """(file name, whether it agrees, a sentence) for each document that is in a folder.

    A publisher completes them: what the certificate does not imply may be added or changed, the rest may not. The text
    of a card cannot be compared but as a whole, so that a changed one is named and decides nothing.
    """
    expected = documents_of(folder)
    for name in DOCUMENTS:
        if not (path / name).is_file():
            continue
        if name not in expected:
            yield name, False, f"{name} speaks of a guarantee that the certificate does not state."
        elif name == CARD:
            same = (path / name).read_bytes() == _encoded(expected[name])
            changed = f"{name} was completed or changed since the run: it is its author's word, not the certificate's."
            yield name, True if same else None, f"{name} says what the certificate implies." if same else changed
        else:
            differ = _contradicted(_parsed(expected[name]), _read(path / name))
            said = f"{name} contradicts the certificate in {differ[0]}." if differ else None
            yield name, not differ, said or f"{name} says what the certificate implies."


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            return read_json(path)
        return _parsed(path.read_text(encoding="utf-8")) if path.stat().st_size <= MAX_JSON else None
    except (DataError, OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _parsed(text: str) -> Any:
    return yaml.safe_load(text)


_STATED = {
    *("name", "url_slug", "intended_use", "rai:dataUseCases", "justification", "status", "registry_authors", "tier"),
    *("datePublished", "publication_date"),
}
"""Keys of what a publisher may say otherwise."""


def _contradicted(expected: Any, found: Any, at: str = "it") -> list[str]:
    """Where a completed document says otherwise than ours; what ours leaves open, or does not hold, may be anything."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [at]
        keys = [key for key in expected if key not in _STATED]
        return [each for key in keys for each in _contradicted(expected[key], found.get(key), str(key))]
    if isinstance(expected, list):
        if TO_FILL_IN in str(expected):
            return []
        if not isinstance(found, list) or len(found) < len(expected):
            return [at]
        return [each for ours, theirs in zip(expected, found, strict=False) for each in _contradicted(ours, theirs, at)]
    return [] if expected in (found, TO_FILL_IN) else [at]
