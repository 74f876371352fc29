"""Documents and formats for other people: complete, valid by the standards' own tools, and nothing but public facts."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import re
import shutil
from pathlib import Path

import mlcroissant
import numpy as np
import pandas as pd
import pytest
import yaml
from export_fakes import CLASSES, REGISTRY, SCHEDULE, STATED, copied, errors_of, images, rows, said_of, save
from huggingface_hub import DatasetCard
from PIL import Image
from pyarrow import parquet

from dpdistill import verify
from dpdistill.certificate.build import SEEDED_NOISE
from dpdistill.folder.layout import CARD, CROISSANT, DEPLOYMENT
from dpdistill.folder.save import read_distilled
from dpdistill.publish.export import FORMATS, Publisher, export
from dpdistill.publish.export.card import literal
from dpdistill.publish.export.documents import compare
from dpdistill.publish.export.publisher import SECTORS, TO_FILL_IN
from dpdistill.publish.report.folder import read_folder
from dpdistill.schema import DataError


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("pictures") / "set", images())


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("table") / "set", rows())


@pytest.fixture(scope="module")
def unprotected(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("unprotected") / "set", images(), None)


def test_every_folder_carries_its_documents(pictures, table, unprotected):
    for folder in (pictures, table):
        assert {CROISSANT, CARD, DEPLOYMENT} <= {path.name for path in folder.iterdir()}
    assert {CROISSANT, CARD} <= {path.name for path in unprotected.iterdir()}
    assert not (unprotected / DEPLOYMENT).exists()


@pytest.mark.parametrize("kind", ["pictures", "table", "unprotected"])
def test_croissant_is_valid_and_its_records_are_those_of_the_set(kind, request):
    folder = request.getfixturevalue(kind)
    described = mlcroissant.Dataset(jsonld=folder / CROISSANT)
    assert described.metadata.ctx.issues.errors == set()
    assert [str(each) for each in described.metadata.conforms_to] == [
        "http://mlcommons.org/croissant/1.1",
        "http://mlcommons.org/croissant/RAI/1.0",
    ]
    assert {each["classes/name"] for each in described.records("classes")} == set(read_distilled(folder).schema.classes)
    found = list(described.records("records"))
    if kind == "table":
        assert [each["records/age"] for each in found] == [30, 40, 50]
        assert [each["records/outcome"] for each in found] == [b"well", b"ill", b"ill"]
        assert [each["records/cost"] for each in found] == [0.25, None, 0.75]
    else:
        assert sorted(each["records/label"] for each in found) == [b"a_b__i_c__i__d"] * 2 + [b"cat"] * 2
        pixels = {np.asarray(each["records/image"]).tobytes() for each in found}
        files = (folder / "images").rglob("*.png")
        assert pixels == {np.asarray(Image.open(path)).tobytes() for path in files}


def test_croissant_says_how_the_set_was_made_and_what_it_cannot_do(pictures, unprotected):
    said = json.loads((pictures / CROISSANT).read_text())
    assert said["prov:wasGeneratedBy"]["@type"] == "prov:Activity"
    assert "epsilon = 1.5" in said["prov:wasGeneratedBy"]["prov:label"]
    assert "not published" in said["prov:wasDerivedFrom"]["prov:label"]
    limits = " ".join(said["rai:dataLimitations"])
    assert "choosing the recipe on these records" in limits
    assert re.search(r"epsilon = 3\.\d+ with 2 rows", limits)
    assert "epsilon = 1.5 and delta = 1e-6" in said["rai:personalSensitiveInformation"]
    digests = json.loads((pictures / "certificate.json").read_text())["files"]
    files = {each["@id"]: each["sha256"] for each in said["distribution"] if "sha256" in each}
    own = hashlib.sha256((pictures / "certificate.json").read_bytes()).hexdigest()
    listed = {name: digest for name, digest in digests.items() if not name.startswith("images/")}
    assert files == {**listed, "certificate.json": own}
    without = json.loads((unprotected / CROISSANT).read_text())
    assert "differential privacy" not in without["keywords"]
    assert "epsilon is infinite" in without["rai:personalSensitiveInformation"]
    assert "without a privacy guarantee" in without["prov:wasGeneratedBy"]["prov:label"]


@pytest.mark.parametrize("kind", ["pictures", "table", "unprotected"])
def test_a_card_is_read_by_the_hub_and_escapes_what_it_shows(kind, request):
    folder = request.getfixturevalue(kind)
    card = DatasetCard.load(folder / CARD)
    facts = card.data.to_dict()
    task = "tabular-classification" if kind == "table" else "image-classification"
    assert facts["task_categories"] == [task]
    assert facts["size_categories"] == ["n<1K"]
    assert facts["license"] == "unknown"
    assert ("differential-privacy" in facts["tags"]) == (kind != "unprotected")
    (data,) = facts["configs"][0]["data_files"]
    assert len(list(folder.glob(data["path"]))) == (1 if kind == "table" else 4)
    if kind == "unprotected":
        assert "**No privacy guarantee.** No privacy guarantee: epsilon is infinite" in card.text
        assert "ε | **" not in card.text
    else:
        assert "| ε | **1.5** |" in card.text
        assert "probability of at most 81.8 %" in card.text
    if kind == "table":
        assert "| cost | numeric | 0 to 1, or missing |" in card.text
        assert "| ward | categorical | A, B |" in card.text
    else:
        assert r"a\*b \<i\>c\</i\>\|d" in card.text
        assert "<i>" not in card.text


@pytest.mark.parametrize("kind", ["pictures", "table", "unprotected"])
def test_a_receiver_loads_the_set_as_the_card_says(kind, request, monkeypatch):
    """NumPy's and scikit-learn's code runs and learns the set's classes; PyTorch's compiles."""
    monkeypatch.chdir(request.getfixturevalue(kind))
    text = Path(CARD).read_text("utf-8")
    numpy, scikit, torch = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    loaded, fitted = {}, {}
    exec(numpy, loaded)
    exec(scikit, fitted)
    compile(torch, CARD, "exec")
    assert np.bincount(loaded["y"]).tolist() == ([1, 2] if kind == "table" else [2, 2])
    labels = pd.read_csv("synthetic.csv")["outcome"] if kind == "table" else np.array(CLASSES)[[0, 0, 1, 1]]
    assert set(fitted["model"].classes_) == set(labels)
    if kind != "table":
        assert (fitted["X"].min(), fitted["X"].max()) == (0.0, 1.0)
        assert fitted["model"].predict(fitted["X"]).tolist() == labels.tolist()
    named = set(re.findall(r"`([\w.]+)`", text.partition("| file | for |")[2].partition("NumPy:")[0]))
    files = {path.name for path in Path().iterdir()}
    assert files - named <= {CARD}
    assert named - files <= {"X", "y", "soft_labels"}


def test_a_label_cannot_leave_the_code_of_the_card():
    text = 'a```\n"b'
    assert "`" not in literal(text)
    assert eval(literal(text)) == text


def leaves(node: dict, tier: int, at: tuple = ()) -> set[tuple]:
    below = node.get("properties", {}) if "tier" not in node else {}
    found = {each for name, child in below.items() for each in leaves(child, tier, (*at, name))}
    return {*found, at} if node.get("tier") == tier else found


def stated(record: dict, at: tuple) -> bool:
    for name in at:
        record = record.get(name, {})
    return record not in ({}, "", None)


def test_the_registry_takes_the_record_once_the_publisher_has_spoken(pictures, table, tmp_path):
    for k, folder in enumerate((pictures, table)):
        record = yaml.safe_load((folder / DEPLOYMENT).read_text())
        assert errors_of(record) == [
            "'TO BE FILLED IN' is not a 'date'",
            "'TO BE FILLED IN' is not one of ['Government', 'Industry', 'Nonprofit']",
            f"'TO BE FILLED IN' is not one of {list(SECTORS)}",
        ]
        assert all(stated(record, at) for at in leaves(REGISTRY, 2))
        missing = {at[-1] for at in leaves(REGISTRY, 3) if not stated(record, at)}
        # The first is protected or, under replace-one, not in the folder; the others are no certificate's.
        assert missing == {"number_of_privacy_units", "model_name_details", "utility"}
        full = yaml.safe_load(export(folder, "registry", tmp_path / f"{k}.yaml", STATED).read_text())
        assert errors_of(full) == []
        assert TO_FILL_IN not in str(full)
        assert TO_FILL_IN in str(record)
        assert all(stated(full, at) for at in leaves(REGISTRY, 1))
        # The registry's own check: no text is folded, which hurts its Markdown.
        tokens = yaml.scan((folder / DEPLOYMENT).read_text())
        assert {token.style for token in tokens if isinstance(token, yaml.ScalarToken)} <= {None, "'", '"', "|"}


def test_the_registry_is_told_the_numbers_of_the_certificate(table):
    deployment = yaml.safe_load((table / DEPLOYMENT).read_text())["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.5, "delta": 1e-6}
    assert deployment["privacy_loss"]["privacy_unit"].startswith("one row (adding or removing one row); a row stands")
    noise = SCHEDULE.noise_multipliers[0]
    assert (
        f"4 rounds with noise multiplier {noise:.6g}, all records in each" in deployment["implementation"]["mechanisms"]
    )
    assert "package default" in deployment["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert "protected by the guarantee and therefore not stated" in deployment["privacy_loss"]["privacy_unit_details"]


def test_without_a_guarantee_there_is_nothing_to_register(unprotected, tmp_path):
    with pytest.raises(DataError, match="the registry takes no others"):
        export(unprotected, "registry", tmp_path / "a.yaml")
    seeded = save(tmp_path / "seeded", images(), noise=SEEDED_NOISE)
    assert not (seeded / DEPLOYMENT).exists()
    assert "noise came from a seed" in json.loads((seeded / CROISSANT).read_text())["description"]
    assert "No privacy guarantee" in (seeded / CARD).read_text()


# What verify says of them


def test_untouched_documents_agree(pictures, table, unprotected):
    assert said_of(pictures) == said_of(table) == {CROISSANT: True, CARD: True, DEPLOYMENT: True}
    assert said_of(unprotected) == {CROISSANT: True, CARD: True}
    checks = {check.name: check.passed for check in verify(table).checks}
    assert checks[CROISSANT] is checks[CARD] is checks[DEPLOYMENT] is checks["files"] is True


def test_a_publisher_may_complete_them(table, tmp_path):
    folder = copied(table, tmp_path)
    for to, name in (("croissant", CROISSANT), ("card", CARD), ("registry", DEPLOYMENT)):
        ending = FORMATS[to].ending
        shutil.copy(export(table, to, tmp_path / f"{to}{ending}", STATED), folder / name)
    assert said_of(folder) == {CROISSANT: True, CARD: None, DEPLOYMENT: True}
    assert "cc-by-4.0" in (folder / CARD).read_text()
    assert verify(folder).passed == verify(table).passed


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "where"),
    [
        (DEPLOYMENT, "epsilon: 1.5", "epsilon: 0.1", "epsilon"),
        (DEPLOYMENT, "variant_name: Approximate DP", "variant_name: Pure DP", "variant_name"),
        (DEPLOYMENT, "privacy_unit: 'one row", "privacy_unit: 'one hospital", "privacy_unit"),
        (DEPLOYMENT, "deployment:", "a: [", "it"),
        (CROISSANT, "epsilon = 1.5", "epsilon = 0.1", "description"),
        (CROISSANT, '"sha256": "', '"sha256": "0', "sha256"),
        (CROISSANT, '"rai:dataLimitations"', '"rai:dataLimits"', "rai:dataLimitations"),
        (CROISSANT, "{", "", "it"),
    ],
)
def test_what_contradicts_the_certificate_fails(table, tmp_path, name, ours, theirs, where):
    folder = copied(table, tmp_path)
    text = (folder / name).read_text()
    assert ours in text
    (folder / name).write_text(text.replace(ours, theirs, 1))
    (found,) = [sentence for each, agrees, sentence in compare(folder, read_folder(folder)) if agrees is False]
    assert found == f"{name} contradicts the certificate in {where}."
    assert {check.name for check in verify(folder).checks if check.passed is False} >= {name}


def test_a_record_for_the_registry_of_a_set_without_guarantee_fails(unprotected, table, tmp_path):
    folder = copied(unprotected, tmp_path)
    shutil.copy(table / DEPLOYMENT, folder)
    assert said_of(folder)[DEPLOYMENT] is False


# Formats


def test_hugging_face_images(pictures, tmp_path):
    folder = export(pictures, "hf", tmp_path / "hub", STATED)
    (file,) = folder.glob("data/*.parquet")
    read = parquet.read_table(file)
    features = json.loads(read.schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"image": {"_type": "Image"}, "label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    assert read["label"].to_pylist() == [0, 0, 1, 1]
    first = np.asarray(Image.open(io.BytesIO(read["image"][3].as_py()["bytes"])))
    np.testing.assert_array_equal(first, np.rint((images().X[3] + 1) * 127.5))
    card = DatasetCard.load(folder / CARD)
    info = card.data.to_dict()["dataset_info"]
    assert info["features"][1]["dtype"]["class_label"]["names"] == {"0": CLASSES[0], "1": CLASSES[1]}
    assert info["splits"] == [{"name": "train", "num_bytes": pytest.approx(read.nbytes, abs=8), "num_examples": 4}]
    assert card.data.to_dict()["license"] == "cc-by-4.0"
    assert "Teaching" in card.text


def test_hugging_face_rows(table, tmp_path):
    read = parquet.read_table(next(export(table, "hf", tmp_path / "hub").glob("data/*.parquet")))
    features = json.loads(read.schema.metadata[b"huggingface"])["info"]["features"]
    assert [kind.get("dtype") for kind in features.values()] == ["int64", "float64", "string", None]
    assert read.to_pydict() == {
        "age": [30, 40, 50],
        "cost": [0.25, None, 0.75],
        "ward": ["A", "B", "B"],
        "outcome": [0, 1, 1],
    }


def test_networks_get_what_they_are_to_be_trained_on(tmp_path):
    tiles, soft = images().X[:1, :2, :2] / 2, np.array([[0.25, 0.75]], np.float32)
    made = images(training=(tiles, np.array([1], np.int32)), soft_labels=soft)
    folder = save(tmp_path / "set", made)
    with np.load(export(folder, "torch", tmp_path / "torch") / "train.npz") as arrays:
        assert {name: (array.dtype.str, array.shape) for name, array in arrays.items()} == {
            "X": ("<f4", (1, 3, 2, 2)),
            "y": ("<i8", (1,)),
            "classes": (np.array(CLASSES).dtype.str, (2,)),
            "soft_labels": ("<f4", (1, 2)),
        }
        np.testing.assert_allclose(arrays["X"][0, 2, 1, 0], (tiles[0, 1, 0, 2] + 1) / 2, atol=1e-6)
        assert arrays["soft_labels"].tolist() == [[0.25, 0.75]]
    read = parquet.read_table(next(export(folder, "hf", tmp_path / "hub").glob("data/*.parquet")))
    assert read["soft_label"].to_pylist() == [[0.25, 0.75]]
    assert read["label"].to_pylist() == [1]
    assert "dataset.py" in {path.name for path in (tmp_path / "torch").iterdir()}


def test_a_card_counts_what_is_to_be_trained_on(tmp_path):
    tiles = np.repeat(images().X[:1], 1200, axis=0)
    folder = save(tmp_path / "set", images(training=(tiles, np.zeros(1200, np.int32))))
    facts = DatasetCard.load(folder / CARD).data.to_dict()
    assert facts["size_categories"] == ["1K<n<10K"]
    (data,) = facts["configs"][0]["data_files"]
    assert len(list(folder.glob(data["path"]))) == 1200


def test_a_torch_dataset_reads_it(pictures, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it is no dependency of this package")
    names: dict = {"__file__": str(export(pictures, "torch", tmp_path / "torch") / "dataset.py")}
    exec(Path(names["__file__"]).read_text(), names)
    made = names["Synthetic"]()
    assert (len(made), made[3][1].item()) == (4, 1)
    np.testing.assert_allclose(made[3][0].numpy(), np.moveaxis((images().X[3] + 1) / 2, 2, 0), atol=1e-6)
    assert isinstance(made, torch.utils.data.Dataset)
    X, y = next(iter(torch.utils.data.DataLoader(made, batch_size=4)))
    assert (X.dtype, tuple(X.shape), y.dtype, y.tolist()) == (torch.float32, (4, 3, 2, 2), torch.int64, [0, 0, 1, 1])
    # What a network is trained with is plain tensors: they go through torch.save and come back without any code.
    torch.save({"X": X, "y": y}, tmp_path / "train.pt")
    read = torch.load(tmp_path / "train.pt", weights_only=True)
    assert torch.equal(read["X"], X)
    torch.nn.functional.cross_entropy(X.flatten(1), y).item()


def test_a_torch_dataset_reads_soft_labels_and_rows(table, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it is no dependency of this package")

    def made(folder: Path, **options):
        names: dict = {"__file__": str(folder / "dataset.py")}
        exec(Path(names["__file__"]).read_text(), names)
        return names["Synthetic"](**options)

    soft = np.array([[0.75, 0.25], [1, 0], [0, 1], [0.5, 0.5]], np.float32)
    folder = export(save(tmp_path / "set", images(soft_labels=soft)), "torch", tmp_path / "soft")
    assert torch.stack([p for _, p in made(folder, soft=True)]).tolist() == soft.tolist()
    rows_read = made(export(table, "torch", tmp_path / "rows"))
    np.testing.assert_array_equal(torch.stack([x for x, _ in rows_read]).numpy(), rows().X)
    assert [label.item() for _, label in rows_read] == [0, 1, 1]


def test_csv_of_images_that_are_cut_holds_their_tiles(tmp_path):
    made = images()
    parts = np.concatenate([made.X, -made.X]), np.concatenate([made.y, made.y])
    folder = save(tmp_path / "set", dataclasses.replace(made, training=parts))
    with export(folder, "csv", tmp_path / "a.csv").open(newline="") as file:
        _, *lines = csv.reader(file)
    with np.load(folder / "training.npz") as stored:
        expected = stored["X"].reshape(8, -1)
    np.testing.assert_allclose(np.array([line[1:] for line in lines], np.float32), expected, rtol=1e-6)
    assert [line[0] for line in lines] == [CLASSES[k] for k in parts[1]]


def test_csv_of_images_and_rows(pictures, table, tmp_path):
    with export(pictures, "csv", tmp_path / "a.csv").open(newline="") as file:
        head, *lines = csv.reader(file)
    assert head[:5] == ["label", "pixel_0_0_0", "pixel_0_0_1", "pixel_0_0_2", "pixel_0_1_0"]
    assert [line[0] for line in lines] == [CLASSES[0], CLASSES[0], CLASSES[1], CLASSES[1]]
    with np.load(pictures / "synthetic.npz") as stored:
        np.testing.assert_array_equal(np.array([line[1:] for line in lines], np.float32), stored["X"].reshape(4, -1))
    assert export(table, "csv", tmp_path / "b.csv").read_bytes() == (table / "synthetic.csv").read_bytes()
    assert pd.read_csv(tmp_path / "b.csv")["ward"].tolist() == ["A", "B", "B"]


@pytest.mark.parametrize("to", sorted({*FORMATS} - {"onnx"}))  # these sets have no classifier
@pytest.mark.parametrize("kind", ["pictures", "table"])
def test_every_format_says_the_cost_and_never_overwrites(to, kind, request, tmp_path):
    folder, out = request.getfixturevalue(kind), tmp_path / f"out{FORMATS[to].ending}"
    export(folder, to, out)
    if to != "csv":
        text = (out / ("officer.html" if to == "kit" else CARD) if out.is_dir() else out).read_text()
        assert re.search(r"ε = 1\.5|ε \| \*\*1\.5\*\*|epsilon = 1\.5|epsilon: 1\.5", text)
    with pytest.raises(DataError, match="exists: choose another place"):
        export(folder, to, out)
    wrong = tmp_path / ("other.zip" if not FORMATS[to].ending else "other")
    with pytest.raises(DataError, match=f"for the format {to}; got"):
        export(folder, to, wrong)


def test_refusals(pictures, tmp_path):
    with pytest.raises(DataError, match="Unknown format 'tfds': choose among hf, torch, csv"):
        export(pictures, "tfds", tmp_path / "a")
    folder = copied(pictures, tmp_path)
    with pytest.raises(
        DataError, match=r"Expected a destination outside of .*, whose files the certificate lists; got .*/hub\."
    ):
        export(folder, "hf", folder / "images" / "hub")
    (folder / "images" / "cat" / "000.png").unlink()
    with pytest.raises(DataError, match=r"not what its certificate lists \(images/cat/000.png\)"):
        export(folder, "csv", tmp_path / "a.csv")
    for text, match in (
        ("name", "Expected field=value with a field among name, curator"),
        ("colour=red", "got 'colour=red'"),
        ("name= ", "Expected field=value"),
        ("sector=Mining", "Expected sector among Technology, Healthcare"),
        ("license=free", "Expected license as a URL \\(https://...\\) or among cc0-1.0, .*apache-2.0; got 'free'"),
        ("url=example.org/ward", "Expected url as https://...; got 'example.org/ward'"),
        ("date=May", "Expected date as YYYY-MM-DD; got 'May'"),
        ("curator_type=Club", "Expected curator_type among Government, Industry, Nonprofit; got 'Club'"),
    ):
        with pytest.raises(DataError, match=match):
            Publisher.parse([text])
    assert Publisher.parse(["name=a=b", "sector=Energy"]) == Publisher(name="a=b", sector="Energy")
