"""Writes the documents for catalogues that every shared folder carries, and compares them with the certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dpdistill.folder.layout import CARD, CROISSANT, DEPLOYMENT, MAX_JSON, MODEL, PREDICT, read_json
from dpdistill.publish.export import card, croissant, deployment, program
from dpdistill.publish.export.publisher import TO_FILL_IN, Publisher
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import mapping, read_guarantee
from dpdistill.schema import DataError
from dpdistill.sources.yaml_text import dump_yaml, load_yaml
from dpdistill.storage.atomic import write_atomically


def croissant_text(folder: Folder, publisher: Publisher) -> str:
    """Returns croissant.json as text."""
    return json.dumps(croissant.describe(folder, publisher), indent=2, ensure_ascii=False) + "\n"


def deployment_text(folder: Folder, publisher: Publisher) -> str:
    """Returns deployment.yaml as text.

    Raises:
        DataError: the set has no guarantee to register.
    """
    return dump_yaml(deployment.describe(folder, publisher))


DOCUMENTS: dict[str, Callable[[Folder, Publisher], str]] = {
    CROISSANT: croissant_text,
    CARD: card.describe,
    DEPLOYMENT: deployment_text,
    PREDICT: program.describe,
}
"""File name -> function that writes its text."""


def documents_of(folder: Folder) -> dict[str, str]:
    """Returns the documents of a folder by file name.

    deployment.yaml exists only for sets with a guarantee, and predict.py for sets with classifier.onnx.
    """
    without = set() if read_guarantee(folder.certificate).holds else {DEPLOYMENT}
    without |= set() if folder.has(MODEL) else {PREDICT}
    return {name: text(folder, Publisher()) for name, text in DOCUMENTS.items() if name not in without}


def write_documents(folder: Path | str) -> list[Path]:
    """Writes croissant.json, README.md and, as far as the set has them, deployment.yaml and predict.py.

    Args:
        folder: holds certificate.json, recipe.json and synthetic.npz.

    Returns:
        Paths of the written files.

    Raises:
        DataError: a file is missing or cannot be used.
    """
    written = []
    for name, text in documents_of(read_folder(folder)).items():
        written.append(Path(folder) / name)
        write_text(written[-1], text)
    return written


def renew_documents(folder: Path | str) -> list[str]:
    """Writes the documents again after scores.json was added to a shared folder.

    Args:
        folder: as for `write_documents`, with scores.json.

    Returns:
        Names of documents that a publisher completed; these are not changed.

    Raises:
        DataError: a file is missing or cannot be used.
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
    """Writes a text as a UTF-8 file in one atomic step."""
    content = _encoded(text)
    write_atomically(path, lambda file: file.write(content))


def compare(path: Path, folder: Folder) -> Iterator[tuple[str, bool | None, str]]:
    """Yields (file name, whether the document agrees with the certificate, a sentence) for each document of a folder.

    A publisher may complete documents. Values marked TO BE FILLED IN and the keys of OWN may hold any text. A text that
    ends in a full stop may be continued. Lists may be longer and in another order. All other values must be as the run
    wrote them. In a card only the guarantee's table is compared: other changes to the card are reported and fail
    nothing.
    """
    expected = documents_of(folder)
    for name in DOCUMENTS:
        if not (path / name).is_file():
            continue
        if name == PREDICT and (name not in expected or _content(path / name) != _encoded(expected[name])):
            yield name, False, f"{name} is not the program of this folder: do not run it."
        elif name not in expected:
            yield name, False, f"{name} states a guarantee that the certificate does not state."
        elif (path / name).stat().st_size > MOST_TIMES * len(_encoded(expected[name])) + SPARE:
            yield name, False, f"{name} is much longer than the file that the run wrote, so it was not read."
        elif _content(path / name) == _encoded(expected[name]):
            yield name, True, f"{name} agrees with the certificate."
        elif name == CARD:
            differ = card.contradicted(expected[name], _content(path / name).decode("utf-8", "replace"))
            changed = f"{name} was completed or changed after the run: the certificate does not cover these changes."
            yield name, False if differ else None, _differs(name, differ) if differ else changed
        elif name == DEPLOYMENT and (hidden := _hidden(folder, _read(path / name))):
            yield name, False, f"{name} states {hidden}, which the guarantee protects ({ADD_REMOVE}): leave it empty."
        else:
            differ = _contradicted(_parsed(expected[name]), _read(path / name))
            yield name, not differ, _differs(name, differ) if differ else f"{name} agrees with the certificate."


def _differs(name: str, where: list[str]) -> str:
    return f"{name} contradicts the certificate in {where[0]}."


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            return read_json(path)
        content = _content(path)
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(content.decode("utf-8"))):
            return None  # YAML aliases: a few lines may expand to millions of values
        return load_yaml(content, texts=False)
    except (DataError, OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _content(path: Path) -> bytes:
    """Reads an untrusted file; returns no content for a file that is too large."""
    return path.read_bytes() if path.stat().st_size <= MAX_JSON else b""


def _parsed(text: str) -> Any:
    return yaml.safe_load(text)


def _hidden(folder: Folder, found: object) -> str:
    """Returns the key of a protected number that deployment.yaml states; empty if none is stated."""
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
"""Keys whose values the publisher writes freely."""
CLOSED = {"privacy_parameters"}
"""Keys of objects that must not get further keys."""
MOST_TIMES, SPARE = 4, 1 << 16
"""Largest size of a completed document: a multiple of the size of ours, and additional bytes."""
MOST_ADDED = 1000
"""Largest number of added list entries; longer lists are not compared."""


def _contradicted(expected: object, found: object, at: str = "it") -> list[str]:
    """Returns where a completed document contradicts ours."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [at]
        added = [at] if at in CLOSED and found.keys() - expected.keys() else []
        own = OWN - {"name"} if "@id" in expected else OWN  # the @id of a file or a column instead of the set's
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
    """Returns whether two texts are the same @id; column ids of earlier versions contain spaces."""
    return isinstance(found, str) and croissant.to_id(found) == croissant.to_id(str(expected))


def _equal(expected: object, found: object) -> bool:
    """Returns whether two values are equal. Booleans are no numbers; YAML 1.1 reads the number 1e-06 as a text."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, str):
        try:
            return float(found) == expected
        except ValueError:
            return False
    return found == expected


def _not_among(expected: object, found: list[Any], at: str) -> list[str]:
    """Returns where list entries contradict this one: entries with its @id, or all entries."""
    name = mapping(expected).get("@id")
    if name is None:
        return [] if expected in found or any(not _contradicted(expected, each, at) for each in found) else [at]
    same = [each for each in found if _same_id(name, mapping(each).get("@id"))]
    return [where for each in same for where in _contradicted(expected, each, at)] if same else [f"{at} ({name})"]


def _goes_on(expected: object, found: object) -> bool:
    """Returns whether a text contains ours, which ends in a full stop, as complete words."""
    if not isinstance(expected, str) or not isinstance(found, str) or not expected.endswith("."):
        return False
    ours, theirs = " ".join(expected.split()), " ".join(found.split())
    return f" {ours} " in f" {theirs} "
