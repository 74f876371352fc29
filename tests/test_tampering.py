"""What somebody who knows the code can do to a good folder: hashes and pages are made anew after each change.

What is left is what the change contradicts. `FAILED` and `NOT_COMPARED` are found; `PASSED` is what no program can know
from a folder: docs/guarantees.md says so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from pyarrow import parquet

import dpdistill as dp
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate.build import SEEDED_NOISE, SYSTEM_NOISE, build_certificate, write_certificate
from dpdistill.certificate.check import FAILED, NOT_COMPARED, PASSED
from dpdistill.folder.layout import LISTED, is_listed
from dpdistill.folder.save import write_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled
from dpdistill.publish.export import write_documents
from dpdistill.publish.report import write_report
from dpdistill.query import Stage
from dpdistill.run import Result, recipe_of
from dpdistill.schema import Column, Schema, TableSchema

BUDGET = Budget(1.0)
PICTURES, TABLE = dp.LDPDC(per_class=2, sampling_prob=1.0), dp.DPMERF()
FIRST = "images/cat/000.png"
NEWER = "9.9.0"


def pictures() -> Distilled:
    X = np.linspace(-1, 1, 4 * 12, dtype=np.float32).reshape(4, 2, 2, 3)
    schema = Schema((2, 2, 3), (0.0, 255.0), ("cat", "dog"))
    extra = {"classifier": np.ones((3, 2), np.float32), "soft_labels": np.full((4, 2), 0.5, np.float32)}
    return Distilled(X, np.array([0, 0, 1, 1], np.int32), schema, **extra)


def rows() -> Distilled:
    columns = (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 1.0), missing=True),
        Column("ward", "categorical", categories=("A", "B")),
    )
    schema = TableSchema(columns, "outcome", ("well", "ill"), unit="patient")
    raw = np.array([[30, 0.25, 0], [40, np.nan, 1], [50, 0.75, 1]])
    return Distilled(schema.to_unit(raw), np.array([0, 1, 1], np.int32), schema)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder of pictures and one of a table, as their runs would have written them."""
    place = tmp_path_factory.mktemp("good")
    for name, method, made in (("pictures", PICTURES, pictures()), ("table", TABLE, rows())):
        schedule = calibrate(method.plan(), BUDGET)
        Result(made, recipe_of(method, 0), schedule, SYSTEM_NOISE).save(place / name)
    return place


def certificate_of(folder):
    return json.loads((folder / "certificate.json").read_text())


def anew(folder, change=lambda certificate: None):
    """Hashes, certificate, documents and page of somebody who knows how they are made."""
    certificate = certificate_of(folder)
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names if is_listed(name)}
    certificate["files"] = digests
    change(certificate)
    write_certificate(folder, certificate)
    pages(folder)


def pages(folder):
    try:
        write_documents(folder)
        write_report(folder)
    except ValueError:  # what cannot be read has no page
        pass


def edits(change):
    """A change of the certificate."""
    return lambda folder: anew(folder, change)


def put(*path, value):
    def change(certificate):
        for key in path[:-1]:
            certificate = certificate[key]
        certificate[path[-1]] = value

    return edits(change)


def built(made_by=PICTURES, schedule=None, noise=SYSTEM_NOISE, **recipe):
    """A whole certificate of another run, by the package's own hand."""

    def change(folder):
        schema = pictures().schema
        paid = schedule or calibrate(made_by.plan(), BUDGET)
        said = recipe_of(made_by, 0) | recipe
        (folder / "recipe.json").write_text(json.dumps(said, indent=2) + "\n")
        write_certificate(folder, build_certificate(folder, schedule=paid, recipe=said, schema=schema, noise=noise))
        pages(folder)

    return change


def replaced(name, content):
    """A file's bytes changed, and all made anew."""

    def change(folder):
        (folder / name).write_bytes(content((folder / name).read_bytes()))
        anew(folder)

    return change


def after(name, old, new, **certificate):
    """A document changed after all was made anew."""

    def change(folder):
        anew(folder, lambda found: found.update(versions=found["versions"] | certificate.get("versions", {})))
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def arrays(name, change, save=np.savez):
    """The arrays of a file changed, and all made anew; the archive is written as the package does unless said."""

    def changed(folder):
        with np.load(folder / name, allow_pickle=False) as saved:
            found = {**saved}
        change(found)
        if save is not None:
            from dpdistill.sources.images import npz

            npz.write_file(folder / name, found) if save is np.savez else save(folder / name, **found)
        anew(folder)

    return changed


def rezipped(**how):
    """synthetic.npz with the same members, written by a zip writer in another way."""

    def change(content):
        out = io.BytesIO(how.get("prefix", b""))
        out.seek(0, io.SEEK_END)
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "a") as new:
            for info in old.infolist():
                data = how.get("payload", lambda name, data: data)(info.filename, old.read(info))
                info.compress_type = how.get("compression", zipfile.ZIP_STORED)
                info.extra, info.comment = how.get("extra", b""), how.get("note", b"")
                new.writestr(info, data)
            for name, data in how.get("more", ()):
                new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
            new.comment = how.get("comment", b"")
        return out.getvalue()

    return replaced("synthetic.npz", change)


def header_comment(name, data):
    """A comment in the header of X's array, which numpy passes over."""
    if name != "X.npy":
        return data
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].rstrip()
    return data[:10] + (header + b" # ward 7").ljust(length - 1) + b"\n" + data[10 + length :]


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def behind_pixels(content):
    """Bytes behind the end of the compressed pixels, within their chunk."""
    at = content.index(b"IDAT")
    length = int.from_bytes(content[at - 4 : at], "big")
    return (
        content[: at - 4] + chunk(b"IDAT", content[at + 4 : at + 4 + length] + b"ward 7") + content[at + 8 + length :]
    )


def as_picture(change):
    def changed(content):
        out = io.BytesIO()
        change(Image.open(io.BytesIO(content))).save(out, "PNG")
        return out.getvalue()

    return changed


def with_text(content):
    out, note = io.BytesIO(), PngInfo()
    note.add_text("Comment", "ward 7")
    Image.open(io.BytesIO(content)).save(out, "PNG", pnginfo=note)
    return out.getvalue()


def added(name, content=b"ward 7", is_folder=False):
    def change(folder):
        path = folder / name
        (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            path.write_bytes(content)
        anew(folder)

    return change


def removed(name):
    def change(folder):
        (folder / name).unlink()
        anew(folder)

    return change


def linked(folder):
    shutil.move(folder / FIRST, folder.parent / "elsewhere.png")
    (folder / FIRST).symlink_to(folder.parent / "elsewhere.png")
    anew(folder)


def rewritten(change):
    """Other records, and everything that follows from them."""

    def changed(folder):
        made = change(pictures())
        for name in LISTED:
            if name != "recipe.json":
                (folder / name).unlink(missing_ok=True)
        write_distilled(folder, made)
        anew(folder, lambda certificate: certificate.update(schema=json.loads(json.dumps(made.schema.to_json()))))

    return changed


def parquet_of(change, behind=b""):
    def changed(content):
        out = io.BytesIO()
        parquet.write_table(change(parquet.read_table(io.BytesIO(content))), out)
        return out.getvalue() + behind

    return replaced("synthetic.parquet", changed)


def raw(change):
    """certificate.json as text, changed after all was made anew."""

    def changed(folder):
        anew(folder)
        text = (folder / "certificate.json").read_text()
        (folder / "certificate.json").write_bytes(change(text).encode())
        assert (folder / "certificate.json").read_bytes() != text.encode()

    return changed


def scaled(factor, **budget):
    """The same noise times a factor, and a claim of another budget: tables, events and words follow."""
    honest = calibrate(PICTURES.plan(), BUDGET)
    noise = tuple(factor * each for each in honest.noise_multipliers)
    return built(schedule=Schedule(honest.stages, noise, Budget(**{"epsilon": 1.0} | budget)))


def whole_schedule(stages, **more):
    return built(schedule=Schedule(stages, (20.0,) * len(stages), BUDGET), **more)


def forged_recipe(**recipe):
    return built(**recipe)


def both(*changes):
    def change(folder):
        for each in changes:
            each(folder)

    return change


BOMB = "\na: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
"""YAML of a few lines that stands for 8^9 words."""

FOUND = {
    # what is claimed
    "epsilon lowered": (scaled(1.0, epsilon=0.5), "epsilon"),
    "epsilon lowered by 0.01 %": (scaled(1.0, epsilon=0.9999), "epsilon"),
    "delta lowered": (scaled(1.0, delta=1e-9), "epsilon"),
    "noise lowered": (scaled(0.5), "epsilon"),
    "replace-one claimed for the same noise": (scaled(1.0, adjacency="replace-one"), "epsilon"),
    "epsilon stated in the claim alone": (put("claim", "epsilon", value=0.5), "events"),
    "true for a number": (put("claim", "epsilon", value=True), "certificate"),
    "the unit in words": (put("unit", value="one hospital"), "events"),
    "the scope in words": (put("scope", value="epsilon covers everything."), "events"),
    "a release left out of the events": (put("events", "events", value=[]), "events"),
    "a smaller epsilon of five rows": (put("groups", "5", value=1.5), "groups"),
    "a smaller epsilon at another delta": (edits(lambda c: c["epsilons"].update({"1e-08": 1.0})), "epsilons"),
    "a weaker attacker": (edits(lambda c: c["attacker"].update(advantage=0.01)), "attacker"),
    "one more round": (whole_schedule((Stage(3),)), "plan"),
    "another sampling": (whole_schedule((Stage(2, 0.9),)), "plan"),
    "seeded noise": (built(noise=SEEDED_NOISE), "noise"),
    "a slack": (put("slack", value="float64 sums"), "slack"),
    "no guarantee at all under a claim": (put("schedule", value=None), "certificate"),
    # the recipe
    "an origin": (forged_recipe(origin="selected on public digits"), "origin"),
    "an origin, as if by an older version": (
        both(forged_recipe(origin="selected on public digits"), put("versions", "dpdistill", value="0.0.9")),
        "origin",
    ),
    "references": (forged_recipe(references=[]), "origin"),
    "another seed type": (forged_recipe(seed="0"), "origin"),
    "a field that the method lacks": (forged_recipe(fields={"steps": 3}), "plan"),
    "recipe.json alone": (
        replaced("recipe.json", lambda content: content.replace(b'"seed": 0', b'"seed": 7')),
        "recipe",
    ),
    "0.0 for 0 in recipe.json": (
        replaced("recipe.json", lambda content: content.replace(b'"seed": 0', b'"seed": 0.0')),
        "recipe",
    ),
    "a byte order mark in recipe.json": (replaced("recipe.json", lambda content: b"\xef\xbb\xbf" + content), "recipe"),
    # the certificate's text
    "an unknown field": (put("audited", value="by us"), "certificate"),
    "a missing field": (edits(lambda certificate: certificate.pop("backend")), "certificate"),
    "a date with the time": (put("date", value="2026-01-31T08:00:00"), "certificate"),
    "a version in words": (put("versions", "dpdistill", value="the newest"), "certificate"),
    "a package more": (put("versions", "torch", value="2.0"), "certificate"),
    "a byte order mark": (raw(lambda text: "\ufeff" + text), "certificate"),
    "other line ends": (raw(lambda text: text.replace("\n", "\r\n")), "certificate"),
    "a name twice": (raw(lambda text: text.replace('"noise": ', '"noise": "none",\n  "noise": ', 1)), "certificate"),
    "1.00 for 1.0": (raw(lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1.00', 1)), "certificate"),
    "1e400": (raw(lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1e400', 1)), "certificate"),
    "words behind the end": (raw(lambda text: text + "{}"), "certificate"),
    # the schema
    "classes in another order": (put("schema", "classes", value=["dog", "cat"]), "schema"),
    "bounds": (put("schema", "bounds", value=[0.0, 1.0]), "schema"),
    "bounds of the arrays": (
        arrays("synthetic.npz", lambda found: found.update(bounds=np.array([0.0, 300.0]))),
        "schema",
    ),
    # synthetic.npz
    "an array more": (arrays("synthetic.npz", lambda found: found.update(real=np.zeros(3))), "contents"),
    "an array less": (arrays("synthetic.npz", lambda found: found.pop("bounds")), "folder"),
    "double precision": (arrays("synthetic.npz", lambda found: found.update(X=found["X"].astype("f8"))), "contents"),
    "another byte order": (arrays("synthetic.npz", lambda found: found.update(y=found["y"].astype(">i8"))), "contents"),
    "wider names of classes": (
        arrays("synthetic.npz", lambda found: found.update(classes=found["classes"].astype("U99"))),
        "contents",
    ),
    "not a number": (arrays("synthetic.npz", lambda found: found["X"].__setitem__(0, np.nan)), "folder"),
    "a value outside of the bounds": (
        arrays("synthetic.npz", lambda found: found["X"].__setitem__(0, 999)),
        "contents",
    ),
    "a label of no class": (arrays("synthetic.npz", lambda found: found["y"].__setitem__(0, 7)), "folder"),
    "a pickle": (rezipped(more=[("real.npy", b"\x93NUMPY\x01\x00\x00\x00")]), "folder"),
    "a text among the arrays": (rezipped(more=[("real.txt", b"ward 7")]), "contents"),
    "an array twice": (
        rezipped(payload=lambda name, data: data, more=[("soft_labels2.npy", b"")]),
        "folder",
    ),
    "a comment of the archive": (rezipped(comment=b"ward 7"), "contents"),
    "a comment of a member": (rezipped(note=b"ward 7"), "contents"),
    "a note of a member": (rezipped(extra=struct.pack("<2H", 0x7077, 4) + b"ward"), "contents"),
    "bytes before the archive": (rezipped(prefix=b"ward 7 " * 9), "contents"),
    "bytes behind the archive": (replaced("synthetic.npz", lambda content: content + b"ward 7"), "contents"),
    "compression": (rezipped(compression=zipfile.ZIP_DEFLATED), "folder"),
    "a comment in an array's header": (rezipped(payload=header_comment), "contents"),
    "an array more in classifier.npz": (
        arrays("classifier.npz", lambda found: found.update(real=np.zeros(3))),
        "contents",
    ),
    # pictures
    "bytes behind a picture": (replaced(FIRST, lambda content: content + b"ward 7"), "contents"),
    "a text in a picture": (replaced(FIRST, with_text), "contents"),
    "bytes behind the pixels": (replaced(FIRST, behind_pixels), "contents"),
    "bytes before the last part": (
        replaced(FIRST, lambda content: content[:-12] + chunk(b"prVt", b"ward 7") + content[-12:]),
        "contents",
    ),
    "another picture": (replaced(FIRST, as_picture(lambda picture: picture.point(lambda v: 255 - v))), "contents"),
    "a picture by a palette": (replaced(FIRST, as_picture(lambda picture: picture.convert("P"))), "contents"),
    "a larger picture": (replaced(FIRST, as_picture(lambda picture: picture.resize((99, 99)))), "contents"),
    "another grid": (
        replaced("synthetic.png", as_picture(lambda picture: picture.point(lambda v: 255 - v))),
        "contents",
    ),
    "a picture more": (added("images/cat/002.png"), "contents"),
    "a picture less": (removed(FIRST), "contents"),
    "a picture that is a link": (linked, "files"),
    # other files
    "a hidden table": (added(".real.csv"), "files"),
    "a table in a folder": (added("notes/real.parquet"), "files"),
    "a note among the pictures": (added("images/cat/who.txt"), "files"),
    "a class without pictures": (added("images/bird", is_folder=True), "files"),
    "a ledger under another name": (added("notes.bin", b"SQLite format 3\0"), "files"),
    "a page by another name": (added("index.htm"), "files"),
    # documents
    "another page": (after("report.html", "cat", "rat"), "report"),
    "README's heading": (after("README.md", "# Synthetic", "# Private (ε = 0.1), synthetic"), "README.md"),
    "README's heading in other letters": (
        after("README.md", "# Synthetic", "# Private (ϵ＝０.１), synthetic"),
        "README.md",
    ),
    "README's heading as an older version": (
        after("README.md", "# Synthetic", "# Epsilon 0.1: synthetic", versions={"dpdistill": "0.0.9"}),
        "README.md",
    ),
    "README's name": (
        after("README.md", "pretty_name: Synthetic", "pretty_name: (0.1, 1e-5)-DP synthetic"),
        "README.md",
    ),
    "README's delta": (after("README.md", "## Contents", "Also δ = 1e-12.\n\n## Contents"), "README.md"),
    "README's table": (after("README.md", "| ε | **1** |", "| ε | **0.1** |"), "README.md"),
    "Croissant's epsilon": (after("croissant.json", "epsilon = 1 ", "epsilon = 0.1 "), "croissant.json"),
    "the registry's epsilon": (after("deployment.yaml", "epsilon: 1.0", "epsilon: 0.1"), "deployment.yaml"),
    "a bomb of YAML": (after("deployment.yaml", "\ndeployment:", f"{BOMB}deployment:"), "deployment.yaml"),
    "a long README": (after("README.md", "## Contents", "word " * 99_999), "README.md"),
}

TABLES = {
    "a cell of the CSV file": (replaced("synthetic.csv", lambda content: content.replace(b"30", b"31", 1)), "contents"),
    "a row more in the CSV file": (replaced("synthetic.csv", lambda content: content + b"9,0.5,A,ill\n"), "contents"),
    "other line ends of the CSV file": (replaced("synthetic.csv", lambda c: c.replace(b"\n", b"\r\n")), "contents"),
    "a cell of the Parquet file": (
        parquet_of(lambda table: table.set_column(0, "age", pa.array([1, 2, 3], pa.int64()))),
        "contents",
    ),
    "a note in the Parquet file": (
        parquet_of(lambda table: table.replace_schema_metadata({**table.schema.metadata, b"ward": b"7"})),
        "contents",
    ),
    "bytes behind the Parquet file": (parquet_of(lambda table: table, b"ward 7"), "contents"),
    "a comment in schema.yaml": (replaced("schema.yaml", lambda content: content + b"# ward 7\n"), "contents"),
    "an encoded row outside of its bounds": (
        arrays("synthetic.npz", lambda c: c["X"].__setitem__((0, 0), 3)),
        "folder",
    ),
    "no CSV file": (removed("synthetic.csv"), "contents"),
}

NOT_MADE_AGAIN = {
    "another page, as if by a newer version": (
        after("report.html", "cat", "rat", versions={"dpdistill": NEWER}),
        "report",
    ),
    "another page, as if by an older version": (
        after("report.html", "cat", "rat", versions={"dpdistill": "0.0.9"}),
        "report",
    ),
    "another grid, as if by another Pillow": (
        both(
            replaced("synthetic.png", as_picture(lambda picture: picture.point(lambda v: 255 - v))),
            put("versions", "pillow", value="1.0"),
        ),
        "contents",
    ),
    "an unknown method": (forged_recipe(method="new", origin="package default"), "plan"),
    "a recipe that only another version may know": (
        both(forged_recipe(fields={"steps": 3}), put("versions", "dpdistill", value=NEWER)),
        "plan",
    ),
}

NOBODY_KNOWS = {
    "nothing": anew,
    "ten times the noise was never added": built(schedule=calibrate(PICTURES.plan(), Budget(0.1))),
    "other records, and all that follows from them": rewritten(
        lambda made: dataclasses.replace(made, X=made.X[::-1].copy())
    ),
    "classes exchanged everywhere": rewritten(
        lambda made: dataclasses.replace(made, schema=Schema((2, 2, 3), (0.0, 255.0), ("dog", "cat")))
    ),
    "other settings of the same plan": built(dataclasses.replace(PICTURES, clip_norm=0.5))
    if "clip_norm" in {field.name for field in dataclasses.fields(PICTURES)}
    else anew,
    "the date": put("date", value="2020-02-29"),
    "the version, and its pages": put("versions", "dpdistill", value=NEWER),
    "what it was computed on": put("backend", value="an abacus"),
    "the id of the releases": put("releases", value="ab" * 32),
    "scores": added("scores.json", b'{"accuracy": 1.0}'),
    "a file of the system": added(".DS_Store"),
    "a licence": added("LICENSE"),
    "the publisher's licence": after("README.md", "license: unknown", "license: cc0-1.0"),
    "README's words": after("README.md", "## Contents", "Nobody can ever be found in it.\n\n## Contents"),
}


def outcome_of(good, name, tmp_path, change):
    folder = Path(shutil.copytree(good / name, tmp_path / "d"))
    change(folder)
    found = dp.verify(folder)
    assert all(check.detail.isascii() and len(check.detail) < 400 for check in found.checks)
    return found.outcome, {check.name: check for check in found.checks}


def told(checks):
    """What did not pass, for a failed test."""
    return [f"{check.name}: {check.detail}" for check in checks.values() if not check.passed]


@pytest.mark.parametrize(("change", "where"), FOUND.values(), ids=FOUND)
def test_a_changed_set_of_pictures_fails(good, tmp_path, change, where):
    outcome, checks = outcome_of(good, "pictures", tmp_path, change)
    assert outcome == FAILED, told(checks)
    assert checks[where].passed is False, told(checks)


@pytest.mark.parametrize(("change", "where"), TABLES.values(), ids=TABLES)
def test_a_changed_table_fails(good, tmp_path, change, where):
    outcome, checks = outcome_of(good, "table", tmp_path, change)
    assert outcome == FAILED, told(checks)
    assert checks[where].passed is False, told(checks)


@pytest.mark.parametrize(("change", "where"), NOT_MADE_AGAIN.values(), ids=NOT_MADE_AGAIN)
def test_what_this_version_cannot_make_again_does_not_pass(good, tmp_path, change, where):
    outcome, checks = outcome_of(good, "pictures", tmp_path, change)
    assert outcome == NOT_COMPARED, told(checks)
    assert checks[where].compared is False, told(checks)


@pytest.mark.parametrize("change", NOBODY_KNOWS.values(), ids=NOBODY_KNOWS)
def test_what_no_program_can_know_passes(good, tmp_path, change):
    outcome, checks = outcome_of(good, "pictures", tmp_path, change)
    assert outcome == PASSED, told(checks)


def test_a_good_table_passes(good, tmp_path):
    outcome, checks = outcome_of(good, "table", tmp_path, anew)
    assert outcome == PASSED, told(checks)


@pytest.mark.parametrize(
    "name",
    ["ten times the noise was never added", "other records, and all that follows from them", "the id of the releases"],
)
def test_the_owner_finds_what_others_cannot_know(good, tmp_path, name):
    """Beside the run's own folder the certificate must be one that the run handed over."""
    run, schedule = tmp_path / "d.run", calibrate(PICTURES.plan(), BUDGET)
    recipe = recipe_of(PICTURES, 0) | {"schema": pictures().schema.to_json(), "noise": SYSTEM_NOISE}
    with RunLedger.open(run, recipe, schedule, b"d") as ledger:
        for t in range(schedule.rounds):
            ledger.commit(t, schedule.event(t), np.zeros(2), 1.0)
    digest = hashlib.sha256((good / "pictures" / "certificate.json").read_bytes()).hexdigest()
    (run / "finished").write_text(f"{digest}\n")
    outcome, checks = outcome_of(good, "pictures", tmp_path, NOBODY_KNOWS[name])
    assert outcome == FAILED
    assert checks["handover"].passed is False
    if "noise" in name:
        assert checks["ledger"].passed is False
    shutil.rmtree(tmp_path / "d")
    assert outcome_of(good, "pictures", tmp_path, lambda folder: None)[0] == PASSED
