"""Makes the test vectors of the certificate: `python tests/certificate/make_vectors.py` writes them into vectors/.

Four folders as runs leave them, without page and documents, and ten that were changed in one way each.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dpdistill as dp
from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.build import build_certificate, certificate_content
from dpdistill.folder.layout import UNLISTED
from dpdistill.schema import Column, Schema, TableSchema

VECTORS = Path(__file__).with_name("vectors")
Change = Callable[[Path, dict[str, Any]], Any]


def images() -> dp.Records:
    from sklearn.datasets import load_digits

    digits = load_digits()
    zeros_and_ones = digits.target < 2
    X, y = digits.images[zeros_and_ones].astype(np.float32), digits.target[zeros_and_ones]
    return dp.Records.from_arrays(X, y, classes=["0", "1"], bounds=(0, 16))


def table() -> dp.Records:
    rng, n = np.random.default_rng(0), 300
    columns = (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 1.0), missing=True),
        Column("ward", "categorical", categories=("A", "B", "C")),
    )
    schema = TableSchema(columns, "outcome", ("well", "ill"))
    raw = np.stack([rng.integers(0, 100, n), rng.random(n), rng.integers(0, 3, n)], 1).astype(np.float64)
    y, persons = rng.integers(0, 2, n), rng.integers(0, 60, n)
    return dp.Records(raw, y, schema, units=persons)


def make_good(place: Path) -> None:
    """The four folders that pass."""
    full, sampled = dp.LDPDC(per_class=1, sampling_prob=1.0), dp.DOS(networks=2, per_class=1, steps=5)
    dp.distill(images(), full, dp.Budget(1.0)).save(place / "good-images")
    dp.distill(images(), sampled, dp.Budget(2.0, 1e-6)).save(place / "good-images-sampled")
    dp.distill_without_privacy(images(), dp.DM(per_class=1, rounds=2)).save(place / "good-images-non-private")
    small = dp.DPMERF(samples=20, hidden=4, steps=3, frequencies=5)
    persons = dp.Budget(1.0, 1e-5, "replace-one", unit="patient_id", rows_per_unit=4)
    dp.distill(table(), small, persons).save(place / "good-table-units")
    for folder in place.iterdir():
        for name in set(UNLISTED) - {"certificate.json"}:
            (folder / name).unlink(missing_ok=True)


def edited(change: Callable[[dict[str, Any]], Any]) -> Change:
    """A change of the certificate's content."""

    def write(folder: Path, certificate: dict[str, Any]) -> None:
        change(certificate)
        (folder / "certificate.json").write_bytes(certificate_content(certificate))

    return write


def texted(old: str, new: str) -> Change:
    """A change of the certificate's text."""

    def write(folder: Path, certificate: dict[str, Any]) -> None:
        text = (folder / "certificate.json").read_text()
        assert text.count(old) == 1, old
        (folder / "certificate.json").write_text(text.replace(old, new))

    return write


def repaid(noise: float = 1.0, **budget: Any) -> Change:
    """A whole certificate, all of whose tables agree, of other noise or another claim."""

    def write(folder: Path, certificate: dict[str, Any]) -> None:
        paid = Schedule.from_json(json.dumps(certificate["schedule"]))
        multipliers = tuple(noise * each for each in paid.noise_multipliers)
        schedule = Schedule(paid.stages, multipliers, replace(paid.budget, **budget))
        schema: Any = TableSchema if "columns" in certificate["schema"] else Schema
        kept = {key: certificate[key] for key in ("noise", "slack", "backend", "self_test", "releases", "date")}
        facts = {"recipe": certificate["recipe"], "schema": schema.from_json(certificate["schema"])}
        made = build_certificate(folder, schedule=schedule, **facts, **kept)
        (folder / "certificate.json").write_bytes(certificate_content(made))

    return write


def another_byte(folder: Path, certificate: dict[str, Any]) -> None:
    path = folder / "synthetic.npz"
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    path.write_bytes(content)


ONE = {"name": "another hospital", "part": "theirs"}
BAD: dict[str, tuple[str, Change, list[str], str]] = {
    "bad-noise-too-small": (
        *("good-images", repaid(noise=0.9), ["epsilon"]),
        "The noise multiplier is 0.9 times what the claim needs; every table agrees with the smaller noise.",
    ),
    "bad-epsilon-understated": (
        *("good-images-sampled", repaid(epsilon=1.8), ["epsilon"]),
        "The claim is epsilon = 1.8 where the releases cost 2; every table agrees with the releases.",
    ),
    "bad-file-hash": (
        *("good-images", another_byte, ["files", "contents"]),
        "One bit of synthetic.npz was changed, so its SHA-256 is another.",
    ),
    "bad-event-missing": (
        *("good-images-sampled", edited(lambda c: c["events"]["events"].pop()), ["events"]),
        "The schedule has two stages and the tree one event.",
    ),
    "bad-unknown-field": (
        *("good-images", edited(lambda c: c.update(audited="by us")), ["certificate"]),
        "The certificate has the field 'audited'.",
    ),
    "bad-unit": (
        *("good-table-units", edited(lambda c: c.update(unit="one hospital")), ["events"]),
        "The sentence of the unit is not that of the budget.",
    ),
    "bad-duplicate-key": (
        *("good-images", texted('  "noise": ', '  "noise": "none",\n  "noise": '), ["certificate"]),
        "The name 'noise' is there twice.",
    ),
    "bad-nan": (
        *(
            "good-images",
            texted('"epsilon": 1.0,\n    "delta": 1e-05\n  },', '"epsilon": NaN,\n    "delta": 1e-05\n  },'),
        ),
        *(["certificate"], "The claimed epsilon is NaN, which is no JSON."),
    ),
    "bad-part": (
        *("good-images", edited(lambda c: c["events"]["events"][0].update(part="held-out")), ["certificate"]),
        "An event reads a part of the records, which no version checks yet.",
    ),
    "bad-owners": (
        *("good-images", edited(lambda c: c["owners"].append(ONE)), ["certificate"]),
        "The certificate names a second owner, which no version checks yet.",
    ),
}
GOOD = {
    "good-images": "One full-batch stage on images, add-remove, single rows.",
    "good-images-sampled": "A full-batch stage and a sampled stage on images, add-remove, single rows.",
    "good-images-non-private": "No guarantee: epsilon is infinite in words, and nothing is claimed.",
    "good-table-units": "Two full-batch stages on a table, replace-one, protected unit patient_id.",
}


def main(place: Path = VECTORS) -> None:
    """Writes all vectors and index.json, which says the outcome of each."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    make_good(place)
    index = [{"name": name, "outcome": "PASSED", "failed": [], "reason": reason} for name, reason in GOOD.items()]
    for name, (base, change, failed, reason) in BAD.items():
        shutil.copytree(place / base, place / name)
        change(place / name, json.loads((place / name / "certificate.json").read_text()))
        index.append({"name": name, "outcome": "FAILED", "failed": failed, "reason": reason})
    (place / "index.json").write_text(json.dumps(index, indent=2) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
