"""What the documents of a shared folder say of it, and what verify accepts of their publisher's words."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import mlcroissant
import pytest
import yaml
from export_fakes import SCHEDULE, STATED, copied, images, rows, said_of, save
from huggingface_hub import DatasetCard

from dpdistill import verify
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate.build import SEEDED_NOISE
from dpdistill.cli import main
from dpdistill.folder.layout import CARD, CROISSANT, DEPLOYMENT, PREDICT, SCORES
from dpdistill.publish.export import DOCUMENTS, FORMATS, Publisher, export, renew_documents
from dpdistill.publish.export.documents import compare
from dpdistill.publish.export.publisher import LICENSES, TO_FILL_IN
from dpdistill.publish.export.sentences import holds
from dpdistill.publish.report.folder import read_folder
from dpdistill.query import Stage
from dpdistill.schema import Column, DataError, Schema


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("table") / "set", rows())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("pictures") / "set", images())


# Scores


SCORED = "scores.json holds scores that were computed on real records without noise: epsilon does not cover them."


def test_documents_of_a_folder_with_scores_say_so(table, tmp_path):
    folder = copied(table, tmp_path)
    (folder / SCORES).write_text('{"accuracy": 0.5}')
    assert said_of(folder) == {CROISSANT: False, CARD: None, DEPLOYMENT: False}
    assert renew_documents(folder) == []
    documents = {*DOCUMENTS} - {PREDICT}  # of a set with a classifier
    assert said_of(folder) == dict.fromkeys(documents, True)
    croissant = json.loads((folder / CROISSANT).read_text())
    assert SCORED in croissant["rai:dataLimitations"]
    assert croissant["rai:personalSensitiveInformation"].endswith(f" {SCORED}")
    assert f"* {SCORED}\n" in (folder / CARD).read_text()
    variant = yaml.safe_load((folder / DEPLOYMENT).read_text())["deployment"]["dp_variant"]
    assert variant["unprotected_quantities"].startswith(f"{SCORED} Public as declared by")
    written = {name: (folder / name).read_bytes() for name in documents}
    assert renew_documents(folder) == []
    assert {name: (folder / name).read_bytes() for name in documents} == written
    # What is exported has no scores.json beside it.
    assert SCORES not in (export(folder, "hf", tmp_path / "hub") / CARD).read_text()


def test_scores_leave_a_completed_document_as_it_is(table, tmp_path):
    folder = copied(table, tmp_path)
    (folder / CARD).unlink()
    export(table, "card", folder / CARD, STATED)
    (folder / DEPLOYMENT).unlink()
    completed = (folder / CARD).read_bytes()
    (folder / SCORES).write_text("{}")
    assert renew_documents(folder) == [CARD]
    assert (folder / CARD).read_bytes() == completed
    assert SCORED in (folder / CROISSANT).read_text()
    assert not (folder / DEPLOYMENT).exists()


# What a publisher may add, and what fails


def replaced(**unit) -> Schedule:
    return calibrate((Stage(4),), Budget(1.5, 1e-6, adjacency="replace-one", **unit))


def edited(folder: Path, name: str, edit) -> tuple[bool | None, str]:
    """What verify says of a document once its contents were changed."""
    text = (folder / name).read_text()
    found = json.loads(text) if name == CROISSANT else yaml.safe_load(text)
    edit(found)
    (folder / name).write_text(json.dumps(found) if name == CROISSANT else yaml.safe_dump(found))
    ((agrees, sentence),) = [each[1:] for each in compare(folder, read_folder(folder)) if each[0] == name]
    return agrees, sentence


def listed(record: dict, key: str) -> None:
    record[key] = ["Columns age and ward.", record[key]]


COMPLETED = [
    lambda c: c.update(description=c["description"] + " Of the General Hospital."),
    lambda c: c.update({"rai:dataCollection": "Stays were recorded. " + c["rai:dataCollection"]}),
    lambda c: c["rai:dataBiases"].append("One hospital only."),
    lambda c: c["rai:dataLimitations"].reverse(),
    lambda c: listed(c, "rai:personalSensitiveInformation"),
    lambda c: c["prov:wasDerivedFrom"].update({"prov:label": "Stays of 2020"}),
    lambda c: c.update(version="2.1.0", license="https://example.org/terms", keywords=["stays", *c["keywords"]]),
    lambda c: [file.update(contentUrl=f"https://example.org/{file['@id']}") for file in c["distribution"]],
    lambda c: c["distribution"].reverse(),
    lambda c: c["distribution"].append({"@type": "cr:FileObject", "@id": "terms.pdf", "sha256": "0"}),
    lambda c: c["recordSet"].reverse(),
    lambda c: c["recordSet"][1]["field"][0].update(description="Years at admission: 0 to 110. Rounded."),
]


@pytest.mark.parametrize("edit", COMPLETED)
def test_a_publisher_may_add_to_croissant(table, tmp_path, edit):
    said = edited(copied(table, tmp_path), CROISSANT, edit)
    assert said == (True, "croissant.json agrees with the certificate.")


def add(record: dict, part: str, **stated: str) -> None:
    for key, value in stated.items():
        own = record["deployment"][part].get(key, "")
        record["deployment"][part][key] = f"{own} {value}" if own.endswith(".") else value


@pytest.mark.parametrize(
    ("part", "stated"),
    [
        ("basic", {"description": "Of the General Hospital."}),
        ("implementation", {"preprocessing_and_hyperparameter_tuning": "The recipe was tuned on these records."}),
        ("implementation", {"additional_information": "Under CC BY.", "utility": "Good for teaching."}),
        ("deployment_model", {"release_type": "Many releases", "actors": "A hospital."}),
    ],
)
def test_a_publisher_may_add_to_the_registry(table, tmp_path, part, stated):
    said = edited(copied(table, tmp_path), DEPLOYMENT, lambda record: add(record, part, **stated))
    assert said == (True, "deployment.yaml agrees with the certificate.")


def test_a_publisher_may_say_what_evidence_a_paper_is(table, tmp_path):
    def edit(record):
        record["deployment"]["administrative"]["evidence_sources"]["method_1"] = {
            "evidence_source_type": "Peer-reviewed publication",
            "misc": {"title": "A. Author (2020). On noise. Journal of Noise.", "year": 2020},
        }

    assert edited(copied(table, tmp_path), DEPLOYMENT, edit)[0] is True


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        (lambda c: c["rai:dataLimitations"].pop(), "rai:dataLimitations"),
        (lambda c: c["distribution"].pop(0), "distribution (recipe.json)"),
        (lambda c: c["distribution"].append({**c["distribution"][0], "sha256": "0" * 64}), "sha256"),
        (lambda c: c.update(description=c["description"].replace("3 synthetic", "13 synthetic")), "description"),
        (lambda c: c["keywords"].remove("differential privacy"), "keywords"),
        (lambda c: c["recordSet"][1]["field"].pop(0), "field (records/age)"),
        (lambda c: c["prov:wasGeneratedBy"].update({"prov:label": "Distilled by hand"}), "prov:label"),
        (lambda c: c["keywords"].extend(["x"] * 1001), "keywords"),
        (lambda c: c["recordSet"][1]["field"][0].update(name="income"), "name"),
        (lambda c: c.update(isLiveDataset=0), "isLiveDataset"),
    ],
)
def test_what_croissant_no_longer_says_fails(table, tmp_path, edit, where):
    said = edited(copied(table, tmp_path), CROISSANT, edit)
    assert said == (False, f"croissant.json contradicts the certificate in {where}.")


def test_nothing_is_added_to_the_parameters(table, tmp_path):
    said = edited(
        copied(table, tmp_path),
        DEPLOYMENT,
        lambda record: record["deployment"]["privacy_loss"]["privacy_parameters"].update(rho=0.001),
    )
    assert said == (False, "deployment.yaml contradicts the certificate in privacy_parameters.")


@pytest.mark.parametrize(
    ("ours", "theirs", "agrees"),
    [
        ("epsilon: 1.5\n", "epsilon: 0.01\n      epsilon: 1.5\n", False),
        ("epsilon: 1.5\n", "epsilon: yes\n", False),
        ("delta: 1.0e-06\n", "delta: 1e-06\n", True),
        ("delta: 1.0e-06\n", "delta: 1e-07\n", False),
        ("delta: 1.0e-06\n", "delta: small\n", False),
    ],
)
def test_numbers_are_stated_once_and_compared_as_numbers(table, tmp_path, ours, theirs, agrees):
    folder = copied(table, tmp_path)
    text = (folder / DEPLOYMENT).read_text()
    assert text.count(ours) == 1
    (folder / DEPLOYMENT).write_text(text.replace(ours, theirs))
    assert said_of(folder)[DEPLOYMENT] is agrees


def test_the_number_of_units_is_protected_where_one_is_added_or_removed(table, tmp_path):
    def edit(record):
        record["deployment"]["privacy_loss"]["number_of_privacy_units"] = 600

    said = edited(copied(table, tmp_path), DEPLOYMENT, edit)
    assert said == (
        False,
        "deployment.yaml states number_of_privacy_units, which the guarantee protects (add-remove): leave it empty.",
    )
    assert edited(save(tmp_path / "replaced", rows(), replaced()), DEPLOYMENT, edit)[0] is True


@pytest.mark.parametrize(
    ("ours", "theirs", "where"),
    [
        ("| ε | **1.5** |", "| ε | **0.1** |", "ε"),
        ("| ε | **1.5** |\n", "", "ε"),
        ("| Noise | operating", "| Noise | better than operating", "Noise"),
        (
            "| Neighbouring data sets | add-remove |",
            "| Neighbouring data sets | replace-one |",
            "Neighbouring data sets",
        ),
        ("## Contents", "| ε | **0.1** |\n\n## Contents", "ε"),
        ("| ε | **1.5** |", "|   ε   |  **1.5**  |", None),
        ("## Contents", "Of the General Hospital.\n\n## Contents", None),
        ("## Contents", "| Unit | mm |\n\n## Contents", None),
        ("| Noise | operating", "| Unit | nobody |\n| Noise | operating", "Unit"),
    ],
)
def test_the_table_of_a_card_stays(table, tmp_path, ours, theirs, where):
    folder = copied(table, tmp_path)
    text = (folder / CARD).read_text()
    assert ours in text
    (folder / CARD).write_text(text.replace(ours, theirs))
    ((agrees, sentence),) = [each[1:] for each in compare(folder, read_folder(folder)) if each[0] == CARD]
    if where is None:
        assert (agrees, "completed or changed after the run" in sentence) == (None, True)
    else:
        assert (agrees, sentence) == (False, f"README.md contradicts the certificate in {where}.")
        assert {check.name for check in verify(folder).checks if check.passed is False} >= {CARD}


def test_the_warning_of_a_card_stays(tmp_path):
    folder = save(tmp_path / "set", images(), None)
    text = (folder / CARD).read_text()
    (folder / CARD).write_text(text.replace("**No privacy guarantee.**", "**Private.**"))
    assert said_of(folder)[CARD] is False
    (folder / CARD).write_text(f"{text}\n| ε | 1 |\n")
    assert said_of(folder)[CARD] is False
    (folder / CARD).write_text(f"{text}\nNot for the public.\n")
    assert said_of(folder)[CARD] is None


# Sets without a guarantee, and other relations


def documents_of(folder: Path) -> str:
    return " ".join(" ".join((folder / name).read_text() for name in DOCUMENTS if (folder / name).exists()).split())


@pytest.mark.parametrize("noise", [None, SEEDED_NOISE])
def test_documents_do_not_advertise_a_set_without_guarantee(tmp_path, noise):
    folder = save(tmp_path / "set", images(), noise and SCHEDULE, noise)
    said = documents_of(folder)
    assert "Training and comparing classifiers" not in said
    assert "costs epsilon of its own" not in said
    assert ("distorted by noise" in said, "Noise distorts" in said) == (noise is not None,) * 2
    croissant = json.loads((folder / CROISSANT).read_text())
    assert croissant["rai:dataUseCases"] == "Not for publication: handle the set like the private records."
    plan = "Published once. Another set from the same records reveals more about them."
    assert croissant["rai:dataReleaseMaintenancePlan"] == plan
    assert "## Uses\n\nNot for publication: handle the set like the private records.\n" in (folder / CARD).read_text()
    assert "guarantee." not in (export(folder, "torch", tmp_path / "torch") / CARD).read_text().split("## Check it")[1]
    stated = export(folder, "card", tmp_path / "a.md", STATED).read_text()
    assert "\nTeaching Not for publication: handle the set like the private records.\n" in stated


def test_the_command_says_that_nothing_is_guaranteed(tmp_path, monkeypatch, capsys):
    folder, out = save(tmp_path / "set", images(), None), tmp_path / "a.csv"
    monkeypatch.setattr(sys, "argv", ["dpdistill", "export", str(folder), "--to", "csv", "--out", str(out)])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert capsys.readouterr().out == (
        f"{out}: written. Nothing is guaranteed: handle the export like the private records.\n"
    )


def test_replace_one_is_said_as_it_is(tmp_path):
    folder = save(tmp_path / "set", rows(), replaced())
    card = " ".join((folder / CARD).read_text().split())
    assert "knows everything but one record, and has no idea which of two given records was used, guesses right" in card
    variant = yaml.safe_load((folder / DEPLOYMENT).read_text())["deployment"]["dp_variant"]
    unprotected = variant["unprotected_quantities"]
    assert unprotected.startswith("The number of rows, which replace-one takes as public. Public as declared by")
    units = save(tmp_path / "units", rows(), replaced(unit="patient_id", rows_per_unit=2))
    card = " ".join((units / CARD).read_text().replace("\\", "").split())
    assert "but all records of one unit (patient_id), and has no idea which of two given sets of records was" in card
    assert "The number of units, which replace-one takes as public." in documents_of(units)


def test_add_remove_leaves_no_number_unprotected(table):
    variant = yaml.safe_load((table / DEPLOYMENT).read_text())["deployment"]["dp_variant"]
    assert variant["unprotected_quantities"].startswith("None from the records. Public as declared by")
    card = " ".join((table / CARD).read_text().split())
    assert "knows everything but one record, and has no idea whether it was used, guesses right" in card


# What a publisher states


def text_of(folder: Path, document: str, **stated: str) -> str:
    return DOCUMENTS[document](read_folder(folder), Publisher(**stated))


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Publisher)])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_field_is_open_in_the_documents_that_state_it(table, field, name):
    stated = getattr(STATED, field)
    changed = text_of(table, name, **{field: stated}) != text_of(table, name)
    assert changed == (field in Publisher().open_in(name))
    assert STATED.open_in(name) == []
    if changed and field != "license":
        text = " ".join(text_of(table, name, **{field: stated}).split())
        assert [part for part in stated.split("/") if part not in text] == []


def test_every_document_marks_what_is_open(table):
    croissant = json.loads((table / CROISSANT).read_text())
    for key in ("license", "url", "citeAs", "rai:dataSocialImpact"):
        assert croissant[key] == TO_FILL_IN
    assert croissant["creator"] == croissant["publisher"] == {"@type": "Organization", "name": TO_FILL_IN}
    card = (table / CARD).read_text()
    assert f"Published by {TO_FILL_IN}, at {TO_FILL_IN}. Licence: {TO_FILL_IN}.\n" in card
    basic = yaml.safe_load((table / DEPLOYMENT).read_text())["deployment"]["basic"]
    assert basic["data_curators"] == [{"data_curator_name": TO_FILL_IN, "data_curator_type": TO_FILL_IN}]
    assert (basic["data_product_sector"], basic["publication_date"]) == (TO_FILL_IN, TO_FILL_IN)


def test_what_is_stated_stands_in_its_place(table, tmp_path):
    path = export(table, "croissant", tmp_path / "c.json", STATED)
    assert (
        mlcroissant.Metadata.from_json(mlcroissant.Context(), json.loads(path.read_text())).ctx.issues.errors == set()
    )
    found = json.loads(path.read_text())
    assert TO_FILL_IN not in str(found)
    hospital = {"@type": "Organization", "name": "General Hospital"}
    assert found["creator"] == found["publisher"] == hospital
    assert (found["license"], found["url"]) == (LICENSES["cc-by-4.0"], "https://example.org/ward")
    assert (found["datePublished"], found["version"]) == ("2027-02-03", "2.0.0")
    assert found["dateCreated"] == json.loads((table / "certificate.json").read_text())["date"]
    assert found["citeAs"] == "General Hospital (2027). Ward round."
    assert found["prov:wasDerivedFrom"]["prov:label"] == "Stays of 2020 to 2022"
    assert found["rai:dataCollection"].endswith(" The records: Stays of 2020 to 2022")
    assert found["rai:dataCollectionTimeframe"] == ["2020-01-01", "2022-12-31"]
    assert found["rai:dataBiases"][1:] == ["One hospital only"]
    assert found["rai:personalSensitiveInformation"][1:] == ["Columns: age, ward"]
    assert found["rai:dataSocialImpact"] == "Students learn without patients"
    record = yaml.safe_load(export(table, "registry", tmp_path / "d.yaml", STATED).read_text())["deployment"]
    assert record["basic"]["publication_date"] == "2027-02-03"
    more = f"Published at https://example.org/ward. Licence: {LICENSES['cc-by-4.0']}."
    assert record["implementation"]["additional_information"].endswith(more)
    card = export(table, "card", tmp_path / "a.md", STATED).read_text()
    assert "\nPublished by General Hospital, at https://example.org/ward. Licence: cc-by-4.0.\n" in card


def test_the_run_does_not_know_when_it_is_published(table):
    assert "datePublished" not in json.loads((table / CROISSANT).read_text())


def test_licenses(table, tmp_path):
    for name, url in LICENSES.items():
        assert json.loads(text_of(table, CROISSANT, license=name))["license"] == url
        assert f"\nlicense: {name}\n" in text_of(table, CARD, license=name)
    own = {"license": "https://example.org/Terms of use/1.0"}
    assert json.loads(text_of(table, CROISSANT, **own))["license"] == own["license"]
    path = export(table, "card", tmp_path / "a.md", Publisher(**own))
    facts = DatasetCard.load(path).data.to_dict()
    assert (facts["license"], facts["license_name"]) == ("other", "example.org-terms-of-use-1.0")
    assert facts["license_link"] == own["license"]


def test_facts_from_a_file(tmp_path):
    file = tmp_path / "about.yaml"
    file.write_text("name: Ward round\ndate: 2027-02-03\nsensitive: [age, ward]\nversion: 2.0\n")
    expected = Publisher(name="Other", date="2027-02-03", sensitive="age, ward", version="2.0")
    assert Publisher.parse(["name=Other"], file) == expected
    for text, match in (
        ("colour: red\n", r"Expected fields among name, curator.* in .*about.yaml; got 'colour'"),
        ("name: {a: b}\n", "Expected a text, or a list of texts, as 'name' in .*about.yaml"),
        ("name: [a, {b: c}]\n", "Expected a text, or a list of texts, as 'name'"),
        ("date: 20240131\n", "Expected date as YYYY-MM-DD; got '20240131'"),
        ("license: 'https://'\n", "Expected license as a URL"),
        ("name: a\nname: b\n", "about.yaml: Key 'name' is written twice, again in line 2"),
        ("- name\n", "Expected lines field: value"),
        ("name: [\n", "about.yaml: Expected YAML"),
        ("license: free\n", "Expected license as a URL"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=match):
            Publisher.parse([], file)
    with pytest.raises(DataError, match=r"missing\.yaml"):
        Publisher.parse([], tmp_path / "missing.yaml")


# Folders in other formats


FOLDERS = [name for name, form in FORMATS.items() if not form.ending and name not in ("kit", "onnx")]
HOLDS = {
    ("hf", "pictures"): "`data/train-00000-of-00001.parquet` holds 4 records as images with 8-bit pixels,",
    ("hf", "table"): "`data/train-00000-of-00001.parquet` holds 3 records in their own columns.",
    (
        "torch",
        "pictures",
    ): "`train.npz` holds 4 records: `X`, float32, images as (m, channels, height, width) in [0, 1],",
    ("torch", "table"): "`train.npz` holds 3 records: `X`, float32, encoded rows, (m, d) in [-1, 1],",
}


@pytest.mark.parametrize("kind", ["pictures", "table"])
@pytest.mark.parametrize("to", FOLDERS)
def test_a_folder_carries_the_certificate_and_a_card_of_its_own(to, kind, request, tmp_path):
    source = request.getfixturevalue(kind)
    folder = export(source, to, tmp_path / "out", STATED)
    carried = ["certificate.json", "recipe.json", *(["schema.yaml"] if kind == "table" else [])]
    assert [name for name in carried if (folder / name).read_bytes() != (source / name).read_bytes()] == []
    assert (folder / "schema.yaml").exists() == (kind == "table")
    card = " ".join(DatasetCard.load(folder / CARD).text.split())
    assert HOLDS[to, kind] in card
    assert "The files here were exported from a shared folder." in card
    assert "Everything computed from the shared folder has the same guarantee." in card
    assert not re.search(r"report\.html|synthetic\.|this folder", card)
    named = {name for name in re.findall(r"`([\w/.-]+)`", card) if "." in name}
    assert {name for name in named if not (folder / name).exists()} == set()
    data = DatasetCard.load(folder / CARD).data.to_dict().get("configs", [])
    paths = [each["path"] for config in data for each in config["data_files"]]
    assert all(list(folder.glob(path)) for path in paths)


def test_documents_speak_of_certificate_json(table):
    assert "epsilon covers the releases that certificate.json lists." in documents_of(table)
    assert "this certificate" not in documents_of(table)


# Names, columns and classes


def test_two_sets_have_two_slugs(table, pictures, tmp_path):
    other = save(tmp_path / "set", dataclasses.replace(rows(), X=-rows().X))
    names, slugs = set(), set()
    for folder in (table, other):
        record = yaml.safe_load((folder / DEPLOYMENT).read_text())
        digest = json.loads((folder / "certificate.json").read_text())["files"]["synthetic.npz"]
        assert record["url_slug"] == f"synthetic-rows-of-outcome-2-classes-dos-{digest[:8]}"
        names.add(record["deployment"]["basic"]["name"])
        slugs.add(record["url_slug"])
    assert (names, len(slugs)) == ({"Synthetic rows of outcome, 2 classes (dos)"}, 2)
    assert json.loads((table / CROISSANT).read_text())["name"] == "Synthetic rows of outcome, 2 classes (dos)"
    assert json.loads((pictures / CROISSANT).read_text())["name"] == "Synthetic images, 2 classes (dos)"
    stated = yaml.safe_load(text_of(table, DEPLOYMENT, name="Ward round"))["url_slug"]
    assert re.fullmatch(r"ward-round-[0-9a-f]{8}", stated)


def test_croissant_describes_columns_and_refers_to_classes(table, pictures, tmp_path):
    classes = {"field": {"@id": "classes/name"}}
    fields = json.loads((table / CROISSANT).read_text())["recordSet"][1]["field"]
    assert {each["name"]: each["description"] for each in fields} == {
        "age": "0 to 110.",
        "cost": "0 to 1, or missing.",
        "ward": "A, B.",
        "outcome": "The class.",
    }
    assert [each.get("references") for each in fields] == [None, None, None, classes]
    schema = Schema((2, 2, 3), (0.0, 1.0), ("cat", "dog"))
    plain = save(tmp_path / "set", images(schema=schema))
    image, label = json.loads((plain / CROISSANT).read_text())["recordSet"][1]["field"]
    assert image["description"] == "An image with 8 bits per channel, whose values from 0 to 255 stand for 0 to 1."
    assert label["references"] == classes
    described = mlcroissant.Dataset(jsonld=plain / CROISSANT)
    assert described.metadata.ctx.issues.errors == set()
    assert {each["records/label"] for each in described.records("records")} == {b"cat", b"dog"}
    # "a*b <i>c</i>|d" is no name of a folder: what the pictures' folder is called is no class.
    assert "references" not in json.loads((pictures / CROISSANT).read_text())["recordSet"][1]["field"][1]


def test_categories_are_cut_between_them():
    names = tuple(f"category {i:03d}" for i in range(100))
    shown = holds(Column("ward", "categorical", categories=names, missing=True))
    assert shown == f"{', '.join(names[:14])}, … and 86 more: schema.yaml, or missing"
    assert (
        holds(Column("ward", "categorical", categories=("a" * 300, "b"))) == f"{'a' * 300}, … and 1 more: schema.yaml"
    )
    assert holds(Column("ward", "categorical", categories=names[:14])) == ", ".join(names[:14])


# The registry


def test_the_registry_says_what_there_is(table, pictures, tmp_path):
    sampled = save(tmp_path / "set", rows(), calibrate((Stage(4, 0.1),), Budget(1.5, 1e-6)))
    records = {
        folder: yaml.safe_load((folder / DEPLOYMENT).read_text())["deployment"] for folder in (table, pictures, sampled)
    }
    for folder, record in records.items():
        how = record["implementation"]
        assert ("sampling" in how["composition"]) == (folder == sampled)
        held = "pictures" if folder == pictures else "a table"
        assert how["post_processing"].endswith(f"The folder holds: synthetic records, {held}.")
        assert how["justification"].endswith(f"Why these parameters: {TO_FILL_IN}")
        assert "who also runs the program" in record["deployment_model"]["actors"]
        evidence = record["administrative"]["evidence_sources"]
        assert evidence["certificate"]["evidence_source_type"] == "Authorized organizational attestation"
        title = evidence["certificate"]["misc"]["title"]
        assert title.startswith("certificate.json: Differentially private with epsilon = 1.5 and delta = 1e-6")
        assert evidence["method_1"]["evidence_source_type"] == "Other public source"
    stated = yaml.safe_load(text_of(table, DEPLOYMENT, justification="A thesis.", url="https://example.org"))
    assert stated["deployment"]["implementation"]["justification"].endswith("Why these parameters: A thesis.")
    sources = stated["deployment"]["administrative"]["evidence_sources"]
    assert sources["certificate"]["misc"]["url"] == "https://example.org"
