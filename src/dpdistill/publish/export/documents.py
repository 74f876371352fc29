"""The documents that every shared folder carries for other people's catalogues, and how they are compared with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dpdistill.folder.layout import CARD, CROISSANT, DEPLOYMENT, MAX_JSON, read_json
from dpdistill.publish.export import card, croissant, deployment
from dpdistill.publish.export.publisher import TO_FILL_IN, Publisher
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import mapping, read_guarantee
from dpdistill.schema import DataError
from dpdistill.sources.yaml_text import dump_yaml, load_yaml
from dpdistill.storage.atomic import write_atomically


def croissant_text(folder: Folder, publisher: Publisher) -> str:
    """croissant.json as text."""
    return json.dumps(croissant.describe(folder, publisher), indent=2, ensure_ascii=False) + "\n"


def deployment_text(folder: Folder, publisher: Publisher) -> str:
    """deployment.yaml as text.

    Raises:
        DataError: the set has no guarantee to register.
    """
    return dump_yaml(deployment.describe(folder, publisher))


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

    A publisher completes them. What is marked TO BE FILLED IN and the keys of OWN may say anything, a text that ends in
    a full stop may go on, and lists may be longer and in another order; all else must be as the run wrote it. Of a card
    that is its table of the guarantee: a card with more changes is named and decides nothing.
    """
    expected = documents_of(folder)
    for name in DOCUMENTS:
        if not (path / name).is_file():
            continue
        if name not in expected:
            yield name, False, f"{name} speaks of a guarantee that the certificate does not state."
        elif (path / name).stat().st_size > MOST_TIMES * len(_encoded(expected[name])) + SPARE:
            yield name, False, f"{name} is so much longer than what the run wrote that it is not read."
        elif _content(path / name) == _encoded(expected[name]):
            yield name, True, f"{name} says what the certificate implies."
        elif name == CARD:
            differ = card.contradicted(expected[name], _content(path / name).decode("utf-8", "replace"))
            changed = f"{name} was completed or changed since the run: it is its author's word, not the certificate's."
            yield name, False if differ else None, _differs(name, differ) if differ else changed
        elif name == DEPLOYMENT and (hidden := _hidden(folder, _read(path / name))):
            yield name, False, f"{name} states {hidden}, which the guarantee protects ({ADD_REMOVE}): leave it empty."
        else:
            differ = _contradicted(_parsed(expected[name]), _read(path / name))
            yield name, not differ, _differs(name, differ) if differ else f"{name} says what the certificate implies."


def _differs(name: str, where: list[str]) -> str:
    return f"{name} contradicts the certificate in {where[0]}."


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            return read_json(path)
        content = _content(path)
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(content.decode("utf-8"))):
            return None  # a few lines may stand for millions
        return load_yaml(content, texts=False)
    except (DataError, OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _content(path: Path) -> bytes:
    """Of a stranger's file: nothing of one that is too large."""
    return path.read_bytes() if path.stat().st_size <= MAX_JSON else b""


def _parsed(text: str) -> Any:
    return yaml.safe_load(text)


def _hidden(folder: Folder, found: object) -> str:
    """The key of a number in deployment.yaml that is itself protected; empty where there is none."""
    for key in ("deployment", "privacy_loss", NUMBER_OF_UNITS):
        found = mapping(found).get(key)
    protected = read_guarantee(folder.certificate).relation == ADD_REMOVE
    return NUMBER_OF_UNITS if protected and found not in (None, "") else ""


ADD_REMOVE, NUMBER_OF_UNITS = "add-remove", "number_of_privacy_units"
OWN = {
    *("name", "url_slug", "intended_use", "rai:dataUseCases", "justification", "status", "registry_authors", "tier"),
    *("datePublished", "publication_date", "version", "license", "url", "creator", "publisher", "contentUrl"),
    *("prov:wasDerivedFrom", "release_type", "evidence_source_type"),
}
"""Keys of what is a publisher's own word: they may say anything."""
CLOSED = {"privacy_parameters"}
"""Keys of objects that nothing is added to."""
MOST_TIMES, SPARE = 4, 1 << 16
"""How long a completed document may be: so many times ours, and so many bytes more."""
MOST_ADDED = 1000
"""Entries that a list may have beyond ours: more are not compared."""


def _contradicted(expected: object, found: object, at: str = "it") -> list[str]:
    """Where a completed document says otherwise than ours."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [at]
        added = [at] if at in CLOSED and found.keys() - expected.keys() else []
        own = OWN - {"name"} if "@id" in expected else OWN  # of a file or a column, in the place of the set
        keys = [key for key in expected if key not in own]
        return [each for key in keys for each in _contradicted(expected[key], found.get(key), str(key))] + added
    if isinstance(expected, list):
        if TO_FILL_IN in str(expected):
            return []
        found = found if isinstance(found, list) else [found]
        if len(found) > len(expected) + MOST_ADDED:
            return [at]
        return [where for each in expected for where in _not_among(each, found, at)]
    if isinstance(found, list) and len(found) <= MOST_ADDED and isinstance(expected, str):
        return _not_among(expected, found, at)
    equal = _same_id(expected, found) if at == "@id" else _equal(expected, found)
    return [] if expected == TO_FILL_IN or equal or _goes_on(expected, found) else [at]


def _same_id(expected: object, found: object) -> bool:
    """Returns whether two texts are one @id: those of columns have spaces in folders of earlier versions."""
    return isinstance(found, str) and croissant.to_id(found) == croissant.to_id(str(expected))


def _equal(expected: object, found: object) -> bool:
    """Flags are no numbers; 1e-06 is one, which YAML 1.1 takes for a text."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, str):
        try:
            return float(found) == expected
        except ValueError:
            return False
    return found == expected


def _not_among(expected: object, found: list[Any], at: str) -> list[str]:
    """Where the entries of a list that might be this one say otherwise: those of its @id, or else all of them."""
    name = mapping(expected).get("@id")
    if name is None:
        return [] if expected in found or any(not _contradicted(expected, each, at) for each in found) else [at]
    same = [each for each in found if _same_id(name, mapping(each).get("@id"))]
    return [where for each in same for where in _contradicted(expected, each, at)] if same else [f"{at} ({name})"]


def _goes_on(expected: object, found: object) -> bool:
    """Returns whether a text holds all of ours, which ends in a full stop, between words of its own."""
    if not isinstance(expected, str) or not isinstance(found, str) or not expected.endswith("."):
        return False
    ours, theirs = " ".join(expected.split()), " ".join(found.split())
    return f" {ours} " in f" {theirs} "
