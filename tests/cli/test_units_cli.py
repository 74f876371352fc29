"""Persons instead of rows, from files to the certificate: their names and numbers come out nowhere."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from contract import Stop, make_records, of_units, stop_after, tiny
from PIL import Image
from run_command import dpdistill, refused, succeeds
from test_tables_cli import SCHEMA, STATED, patients

from dpdistill import DPMERF, TableDistiller, begin_ledger, run, verify
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.audits.canaries import audit_one_run
from dpdistill.audits.method_audit import replay_method
from dpdistill.certificate.build import group_epsilon
from dpdistill.errors import LedgerError
from dpdistill.run.serialize import digest_records
from dpdistill.schema import DataError
from dpdistill.sources.load import load
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema, with_units, write_schema
from dpdistill.storage.records import Records

QUICK = [
    word
    for name, value in {"frequencies": 20, "steps": 5, "samples": 40, "hidden": 8}.items()
    for word in ("--set", f"{name}={value}")
]
ROWS, PEOPLE = 390, 57
NAMES = [f"Kowalski{i:03d}" for i in range(PEOPLE)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of 390 rows of 57 people, one of whom has a hundred."""
    folder = tmp_path_factory.mktemp("units")
    frame = patients(ROWS)
    owner = np.random.default_rng(1).integers(0, PEOPLE, ROWS)
    owner[:PEOPLE], owner[PEOPLE : PEOPLE + 100] = np.arange(PEOPLE), 3
    frame["patient_id"] = np.array(NAMES)[owner]
    frame.to_csv(folder / "patients.csv", index=False)
    (folder / "schema.yaml").write_text(STATED.replace("ignored: [patient_id]", "unit_column: patient_id"))
    (folder / "ignored.yaml").write_text(STATED)
    return folder


@pytest.fixture(scope="module")
def shared(table):
    """A run for persons, and what it said."""
    begin_ledger(table / "ledger", 9.0)
    stated = ["--schema", table / "schema.yaml", "--ledger", table / "ledger"]  # persons, by default
    code, said, notes = dpdistill("distill", table / "patients.csv", *stated, "--out", table / "shared", *QUICK)
    assert code == 0
    assert (
        "Protects persons by patient_id: at most 4 records of each are used, the default of --rows-per-unit. "
        "Epsilon is the same for any number.\n"
    ) in notes
    return table / "shared", said


class TestARunForPersons:
    def test_the_certificate_names_the_unit(self, shared):
        folder, said = shared
        certificate = json.loads((folder / "certificate.json").read_text())
        assert certificate["format"] == 3
        assert certificate["unit"] == (
            "one unit (patient_id), adding or removing all rows of one; at most 4 rows of each, drawn at random, are"
            " used in a round, the others are not; g of them together have g times mu: see groups"
        )
        budget = certificate["schedule"]["budget"]
        assert (budget["unit"], budget["rows_per_unit"]) == ("patient_id", 4)
        assert certificate["group_privacy"] == pytest.approx(4.75, abs=0.1)  # 4 mu, where mu is that of (1, 1e-5)
        assert certificate["groups"]["2"] == pytest.approx(2.155, abs=0.01)
        assert "The guarantee holds for one unit (patient_id), all records together; at most 4 of each are used" in said
        assert "group privacy for 4 of them would be epsilon = 4.747" in said
        page = (folder / "report.html").read_text()
        assert "one unit (patient_id)" in page
        assert "all records of any one unit (patient_id)" in page
        assert "A person with several rows" not in page
        claim = " ".join(page[page.index('<p class="lead">') :].split())
        assert (
            "all records but the records of one unit (patient_id), and starts from fifty-fifty odds that these were "
            "used" in claim
        )

    def test_documents_for_others_are_about_persons(self, shared):
        folder, _ = shared
        said = {name: (folder / name).read_text() for name in ("README.md", "deployment.yaml", "croissant.json")}
        for text in said.values():
            assert not re.search(r"\bone row\b|with 2 rows|one a record:", " ".join(text.split()))
        record = " ".join(said["deployment.yaml"].split())
        assert (
            "Adjacent data sets differ by adding or removing all rows of one unit (patient_id) (add-remove)" in record
        )
        assert "for all rows of one unit (patient_id)" in record
        assert "The number of units, like the number of rows, is protected" in record
        less = r"Several units \(patient_id\) together, such as a family, are protected less: at delta = 1e-5, "
        for text in said.values():
            assert re.search(rf"{less}epsilon = 2\.155 with 2 of them", " ".join(text.split()).replace("\\_", "_"))
        assert "and all records but the records of one unit (patient_id)." in record
        assert "at most 4 records of one unit (patient_id) clipped as one" in record
        assert "everything but all records of one unit (patient\\_id)" in said["README.md"]

    def test_releases_are_used_again_with_the_budget_stated(self, shared, table):
        folder, _ = shared
        again = ("distill", "--from", f"{folder}.run", "--out", table / "stated", *QUICK[6:])
        assert "paid with another budget" in refused(*again, "--epsilon", 2)
        succeeds(*again, "--epsilon", 1)

    def test_it_is_verified_and_a_changed_unit_is_found(self, shared):
        folder, _ = shared
        said = succeeds("verify", folder)
        assert "group privacy: For 4 rows by group privacy, at the same noise multiplier: epsilon=4.7" in said
        path = folder / "certificate.json"
        text = path.read_text()
        try:
            for change in (
                lambda c: c.update(unit=c["unit"].replace("4", "40")),
                lambda c: c["events"].update(rows_per_unit=1),
                lambda c: c.update(group_privacy=1.0),
                lambda c: c["schedule"]["budget"].update(rows_per_unit=2),
                lambda c: c.update(format=3),
                lambda c: c.pop("group_privacy"),
            ):
                certificate = json.loads(text)
                change(certificate)
                path.write_text(json.dumps(certificate))
                assert not verify(folder).passed
        finally:
            path.write_text(text)
        assert verify(folder).passed

    def test_nobody_is_named_or_counted(self, shared, table):
        folder, said = shared
        texts = [said, *(p.read_bytes().decode("latin-1") for p in folder.rglob("*") if p.is_file())]
        owners = [p.read_bytes().decode("latin-1") for p in (table / "shared.run").rglob("*") if p.is_file()]
        assert not any("Kowalski" in text for text in [*texts, *owners])
        certificate = json.loads((folder / "certificate.json").read_text())
        stated = json.dumps(
            {key: value for key, value in certificate.items() if key not in ("files", "releases", "versions", "date")}
        )
        numbers = {
            int(n)
            for text in (said.replace(str(table), ""), stated)
            for n in re.findall(r"(?<![.\d])\d+(?![.\d])", text)
        }
        assert 4 in numbers
        assert not numbers & {ROWS, PEOPLE, 100}

    def test_the_ledger_takes_runs_for_the_same_unit_only(self, shared, table):
        more = ["--out", table / "more", "--ledger", table / "ledger", *QUICK]
        said = refused("distill", table / "patients.csv", "--schema", table / "ignored.yaml", *more)
        assert "protect one patient_id; a run for another unit cannot join them" in said
        again = ["--schema", table / "ignored.yaml", "--unit-column", "patient_id", "--rows-per-unit", 2, *more]
        succeeds("distill", table / "patients.csv", *again)

    def test_releases_are_used_again(self, shared, table):
        said = succeeds("distill", "--from", table / "shared.run", "--out", table / "again", "--set", "steps=6")
        assert "The guarantee holds for one unit (patient_id)" in said
        assert verify(table / "again").passed


class TestRefused:
    @pytest.mark.parametrize(
        ("stated", "said"),
        [
            (
                ["--schema", "ignored.yaml", "--rows-per-unit", 2],
                "Expected --unit-column with --rows-per-unit: the column",
            ),
            (["--schema", "schema.yaml", "--rows-per-unit", 0], "Expected 1 <= rows_per_unit=0 <= 1000"),
            (
                ["--schema", "schema.yaml", "--rows-per-unit", 2, "--unit-column", "age"],
                "as schema.yaml states; got 'age'",
            ),
            (["--schema", "ignored.yaml", "--rows-per-unit", 2, "--unit-column", "age"], "neither among columns nor"),
            (
                ["--schema", "schema.yaml", "--rows-per-unit", 2, "--non-private"],
                "leave out --unit-column, --person-from and --rows-per-unit",
            ),
        ],
    )
    def test_what_does_not_fit_together(self, table, monkeypatch, stated, said):
        monkeypatch.chdir(table)
        assert said in refused("distill", "patients.csv", "--out", "none", *stated, *QUICK)
        assert not (table / "none").exists()

    def test_audits(self, table):
        said = refused(
            "audit", "run", table / "patients.csv", "--schema", table / "schema.yaml", "--out", table / "none", *QUICK
        )
        assert "an audit takes single rows: list it under ignored" in said
        records, budget = of_units(make_records(9), np.arange(9) // 2), Budget(1.0, unit="person", rows_per_unit=2)
        for audit in (audit_one_run, replay_method):
            with pytest.raises(ValueError, match="Expected a budget of single records"):
                audit(records, tiny("dos"), budget)
        with pytest.raises(ValueError, match="Expected a budget of single records with canaries"):
            run.distill(records, tiny("dos"), budget, beside=make_records(2))
        with pytest.raises(DataError, match="Records of units cannot be joined"):
            records.joined(make_records(2))

    def test_records_and_budget_of_different_units(self):
        records, budget = make_records(9), Budget(1.0, unit="person", rows_per_unit=2)
        with pytest.raises(
            ValueError, match=r"Expected records with units where the budget protects one unit \(person\)"
        ):
            run.distill(records, tiny("dos"), budget)
        with pytest.raises(ValueError, match="these records belong to units"):
            run.distill(of_units(records, range(9)), tiny("dos"), Budget(1.0))
        with pytest.raises(DataError, match="Expected units as int64, one for each record"):
            dataclasses.replace(records, units=np.zeros(8, np.int64))

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"rows_per_unit": 2}, "Expected a unit with rows_per_unit=2"),
            ({"unit": "p", "rows_per_unit": 1.0}, r"Expected 1 <= rows_per_unit=1\.0"),
            ({"unit": "p", "rows_per_unit": True}, "Expected 1 <= rows_per_unit=True"),
            ({"unit": "p", "rows_per_unit": 1001}, "Expected 1 <= rows_per_unit=1001 <= 1000"),
            ({"unit": " p"}, "Expected a printable name of the unit; got ' p'"),
            ({"unit": ""}, "Expected a printable name of the unit; got ''"),
            ({"unit": "a\nb"}, "Expected a printable name of the unit"),
        ],
    )
    def test_budgets(self, fields, said):
        with pytest.raises(ValueError, match=said):
            Budget(1.0, **fields)


def test_a_budget_of_rows_is_written_as_before():
    plan = tiny("dos").plan()
    assert "unit" not in calibrate(plan, Budget(1.0)).to_json()
    schedule = calibrate(plan, Budget(1.0, unit="person", rows_per_unit=5))
    assert type(schedule).from_json(schedule.to_json()) == schedule
    assert schedule.noise_multipliers == calibrate(plan, Budget(1.0)).noise_multipliers


def test_with_full_batches_the_noise_is_that_of_group_privacy():
    """Rows at the noise of k shares: a group of k rows has what a unit is promised."""
    plan = tiny("dos").plan()
    units = calibrate(plan, Budget(1.0, unit="person", rows_per_unit=5))
    rows = dataclasses.replace(
        units, noise_multipliers=tuple(5 * s for s in units.noise_multipliers), budget=Budget(1.0)
    )
    assert group_epsilon(rows, 5, 1e-5) == pytest.approx(1.0, rel=1e-6)


def test_a_run_is_resumed_for_the_same_units_only(tmp_path):
    records, budget = of_units(make_records(12), np.arange(12) // 4), Budget(5.0, unit="person", rows_per_unit=2)
    with pytest.raises(Stop):
        run.distill(records, tiny("dos"), budget, run_dir=tmp_path, progress=stop_after(1))
    for other, terms in (
        (of_units(records, np.arange(12) // 3), budget),
        (records, dataclasses.replace(budget, rows_per_unit=3)),
        (Records(records.X, records.y, records.schema), Budget(5.0)),
    ):
        with pytest.raises(LedgerError, match="Another run is kept in"):
            run.distill(other, tiny("dos"), terms, run_dir=tmp_path)
    result = run.distill(records, tiny("dos"), budget, run_dir=tmp_path)
    assert result.schedule == calibrate(tiny("dos").plan(), budget)
    digests = {
        digest_records(each, b"k" * 32) for each in (records, of_units(records, np.arange(12)), make_records(12))
    }
    assert len(digests) == 3


class TestTables:
    def test_units_are_the_same_in_every_format(self, tmp_path):
        frame = patients(8).assign(patient_id=[7, 7, 12, 7, 30, 12, 5, 5])
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        table_file = with_units(TableFile(SCHEMA, True, ignored=("patient_id",)), "patient_id")
        texts = frame.assign(patient_id=["7", " 7", "12.0", "7.0", "thirty", "12", "5", "5 "])
        for source in (frame, tmp_path / "t.csv", tmp_path / "t.parquet", texts, frame.astype({"patient_id": float})):
            assert load_table(source, table_file).units.tolist() == [0, 0, 1, 0, 2, 1, 3, 3]

    def test_a_row_of_nobody_is_refused_or_never_used(self):
        frame = patients(5).assign(patient_id=["a", "b", None, " ", "b"])
        table_file = with_units(TableFile(SCHEMA, True, ignored=("patient_id",)), "patient_id")
        with pytest.raises(DataError, match=r"column 'patient_id', row 3: the row has no unit\.$"):
            load_table(frame, table_file)
        records = load_table(frame, table_file, strict=False)
        assert records.units.tolist() == [0, 1, -1, -1, 1]
        assert records.y[2] == records.y[3] == -1

    def test_schema_files(self, table, tmp_path):
        stated = read_schema(table / "schema.yaml")
        assert stated.unit_column == "patient_id"
        write_schema(tmp_path / "s.yaml", stated)
        assert read_schema(tmp_path / "s.yaml") == stated
        with pytest.raises(DataError, match="Expected unit_column 'age' neither among columns nor under ignored"):
            dataclasses.replace(stated, unit_column="age")

    def test_the_door_for_pandas_users(self, table):
        frame = patients(40).assign(patient_id=np.arange(40) // 3)
        with pytest.raises(ValueError, match="Expected unit_column with rows_per_unit"):
            TableDistiller(table / "ignored.yaml", rows_per_unit=2).fit(frame)
        fields = {"frequencies": 20, "steps": 5, "samples": 40, "hidden": 8}
        method = DPMERF(**fields)
        made = TableDistiller(table / "schema.yaml", method=method).fit(frame)
        assert made.result_.schedule.budget == Budget(1.0, unit="patient_id", rows_per_unit=4)


class TestImages:
    @pytest.fixture(scope="class")
    @staticmethod
    def pictures(tmp_path_factory):
        """The same six images as class folders, as a list and as arrays."""
        folder = tmp_path_factory.mktemp("pictures")
        X = np.random.default_rng(0).integers(0, 255, (6, 8, 8), np.uint8)
        people = ["p1", "p2", "p1", "p3", "p2", "p1"]
        lines = ["file,label,writer"]
        for i, (x, who) in enumerate(zip(X, people, strict=True)):
            path = folder / "classes" / "ab"[i // 3] / f"{who}_{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(x).save(path)
            lines.append(f"classes/{'ab'[i // 3]}/{path.name},{'ab'[i // 3]},{who}")
        (folder / "list.csv").write_text("\n".join(lines) + "\n")
        y = np.array([0, 0, 0, 1, 1, 1])
        np.savez(folder / "arrays.npz", X=X, y=y, classes=["a", "b"], writer=people)
        return folder

    @pytest.mark.parametrize("name", ["classes", "list.csv", "arrays.npz"])
    def test_units_come_with_the_images(self, pictures, name):
        stated = {} if name == "arrays.npz" else {"channels": 1}
        records = load(pictures / name, classes="a,b", unit="writer", **stated)
        named = {}
        for x, unit in zip(records.X, records.units, strict=True):
            named.setdefault(int(unit), set()).add(int(x[..., 0].sum()))
        assert sorted(map(len, named.values())) == [1, 2, 3]
        assert load(pictures / name, classes="a,b", **stated).units is None
        assert records.y.tolist() == [0, 0, 0, 1, 1, 1]

    def test_persons_of_class_folders_are_the_beginnings_of_file_names(self, pictures, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run = ("distill", pictures / "classes", "--out", "shared", "--channels", 1, "--method", "ldpdc")
        sentence = refused(*run, "--unit-column", "writer")
        assert sentence.startswith("Class folders have no columns: use --person-from filename")
        assert "Expected --unit-column or --person-from, not both." in refused(
            *run, "--unit-column", "x", "--person-from", "filename"
        )
        assert refused(*run, "--person-from", "folder") == "Expected --person-from filename; got 'folder'."
        assert refused("distill", "digits:train", "--out", "shared", "--person-from", "filename").startswith(
            "Expected class folders with --person-from filename"
        )
        assert not Path("shared.run").exists()
        code, out, err = dpdistill(*run, "--person-from", "filename", "--rows-per-unit", 2)
        assert (code, "The guarantee holds for one unit (person), all records together" in out) == (0, True)
        before = err.partition("releasing")[0]
        assert 'text before the first "_" of file names: p1_0.png belongs to person p1.' in before
        assert json.loads(Path("shared/certificate.json").read_text())["schedule"]["budget"]["unit"] == "person"

    def test_what_is_refused(self, pictures, tmp_path):
        with pytest.raises(DataError, match="has no array 'person' of units"):
            load(pictures / "arrays.npz", unit="person")
        with pytest.raises(DataError, match="lacks the column 'person'"):
            load(pictures / "list.csv", classes="a,b", unit="person")
        with pytest.raises(DataError, match="does not state which images belong to one person"):
            load("digits:train", unit="person")
        (tmp_path / "list.csv").write_text("file,label,who\nx.png,a\n")
        with pytest.raises(DataError, match="different numbers of fields in line 2"):
            load(tmp_path / "list.csv", classes="a,b", unit="who")
        (tmp_path / "list.csv").write_text("file,label\n")
        with pytest.raises(DataError, match="lists no images"):
            load(tmp_path / "list.csv", classes="a,b")
        (tmp_path / "list.csv").write_bytes(b"file,label\n\xff,a\n")
        with pytest.raises(DataError, match="cannot be read as a CSV in UTF-8"):
            load(tmp_path / "list.csv", classes="a,b")

    def test_a_bad_image_is_told_without_its_person(self, pictures, tmp_path):
        shutil.copytree(pictures, tmp_path / "copy")
        (tmp_path / "copy/classes/b/p3_3.png").write_bytes(b"no image")
        told = {"classes": "Image 6 of .*classes, by the names", "list.csv": "Image 4 that .*list.csv lists"}
        for name, called in told.items():
            stated = {"classes": "a,b", "channels": 1, "unit": "writer"}
            with pytest.raises(DataError, match=f"{called}.* cannot be used: the file is missing") as caught:
                load(tmp_path / "copy" / name, **stated)
            assert "p3" not in str(caught.value)
            assert load(tmp_path / "copy" / name, **stated, resize=8, strict=False).y.tolist().count(-1) == 1

    @pytest.mark.parametrize(
        ("units", "said"),
        [
            ([0, 1], "Expected as many units as records"),
            ([0, -2, 1], r"Record 1 has no unit\.$"),
            (["Maria", "Anna", ""], r"Record 2 has no unit\.$"),
            ([0.5, 1.0, 2.0], r"Record 0 has no unit\.$"),
        ],
    )
    def test_units_of_arrays(self, units, said):
        X, y = np.zeros((3, 4, 4), np.uint8), [0, 1, 0]
        with pytest.raises(DataError, match=said):
            Records.from_arrays(X, y, 2, units=units)

    @pytest.mark.parametrize("names", [["-1", "-1", "3"], ["", "a", "b"], ["NA", "a", "b"], ["-2.0", "3", "4"]])
    def test_texts_that_name_nobody(self, names):
        X, y = np.zeros((3, 2, 2)), [0, 1, 0]
        with pytest.raises(DataError, match="Record 0 has no unit"):
            Records.from_arrays(X, y, 2, (0, 1), units=np.array(names))
        found = Records.from_arrays(X, y, 2, (0, 1), units=np.array(names), strict=False).units
        nobody = [name in ("-1", "", "NA", "-2.0") for name in names]
        assert (found == -1).tolist() == nobody

    def test_units_that_are_missing_are_never_used_if_lenient(self):
        X, y = np.zeros((4, 4, 4), np.uint8), [0, 1, 0, 1]
        records = Records.from_arrays(X, y, 2, units=["b", " ", "a", "b"], strict=False)
        assert (records.units == -1).tolist() == [False, True, False, False]
        assert records.units[0] == records.units[3] != records.units[2]
