"""Format 3: its models, its JSON Schema, the test vectors, and folders of the formats before."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import dpdistill as dp
from dpdistill.certificate.build import certificate_content
from dpdistill.certificate.check import FAILED, PASSED
from dpdistill.certificate.earlier import in_this_format, is_earlier, upgrade
from dpdistill.certificate.format import CANNOT_CHECK, SCHEMA_FILE, Certificate, json_schema, parse, schema_text
from dpdistill.certificate.public_inputs import public_inputs
from dpdistill.certificate.verify import check_certificate, compose_events
from dpdistill.errors import CertificateError
from dpdistill.query import Event

HERE = Path(__file__).parent
VECTORS = {each["name"]: each for each in json.loads((HERE / "vectors" / "index.json").read_text())}
EARLIER = sorted(path.name for path in (HERE / "folders_v0_1").iterdir())
UNITS, IMAGES = HERE / "vectors" / "good-table-units", HERE / "vectors" / "good-images-sampled"


def content(folder: Path) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def write(folder: Path, certificate: dict) -> None:
    (folder / "certificate.json").write_bytes(certificate_content(certificate))


def failed(folder: Path) -> dict[str, str]:
    return {check.name: check.detail for check in check_certificate(folder).checks if check.passed is False}


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(IMAGES, tmp_path / "d"))


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_has_its_outcome(name):
    verification = dp.verify(HERE / "vectors" / name)
    assert verification.outcome == VECTORS[name]["outcome"]
    assert [check.name for check in verification.checks if check.passed is False] == VECTORS[name]["failed"]


def test_the_vectors_are_those_of_the_index():
    assert {path.name for path in (HERE / "vectors").iterdir()} == {*VECTORS, "index.json"}
    outcomes = [each["outcome"] for each in VECTORS.values()]
    assert (outcomes.count(PASSED), outcomes.count(FAILED)) == (4, 10)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import dpdistill.certificate.format, dpdistill.certificate.earlier", "jax scipy dp_accounting numpy"),
        ("import dpdistill.certificate.verify", "jax scipy dp_accounting jinja2"),
        ("import dpdistill as dp; assert not dp.verify('nowhere').passed", "jax scipy dp_accounting jinja2"),
        (f"import dpdistill as dp; assert dp.verify({str(IMAGES)!r}).passed", "jax"),
    ],
)
def test_what_is_read_needs_little(code, absent):
    found = f"{code}; import sys; print(*sorted(set({absent.split()!r}) & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


class TestSchema:
    def test_the_file_is_that_of_the_models(self):
        assert SCHEMA_FILE.read_text() == schema_text()
        jsonschema.Draft202012Validator.check_schema(json_schema())

    @pytest.mark.parametrize("name", [name for name in VECTORS if name not in ("bad-duplicate-key", "bad-nan")])
    def test_it_agrees_with_the_models_on_the_vectors(self, name):
        certificate = content(HERE / "vectors" / name)
        holds = jsonschema.Draft202012Validator(json_schema()).is_valid(certificate)
        assert holds is (name != "bad-unknown-field")
        if holds:
            assert parse(certificate).to_json() == certificate
        else:
            with pytest.raises(CertificateError):
                parse(certificate)

    @pytest.mark.parametrize("name", ["good-table-units", "good-images-sampled", "good-images-non-private"])
    def test_every_field_is_required_and_no_other_is_taken(self, name):
        """At every level, but inside of recipe and schema, which their makers compare."""
        good = content(HERE / "vectors" / name)
        tried = 0
        for path in objects(good):
            for change in (lambda each: each.update(more=1), *(lambda each, k=k: each.pop(k) for k in at(good, path))):
                changed = copy.deepcopy(good)
                change(at(changed, path))
                tried += 1
                assert not jsonschema.Draft202012Validator(json_schema()).is_valid(changed)
                with pytest.raises(CertificateError, match=r"^The certificate"):
                    parse(changed)
        assert tried > 40

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("claim", "epsilon"), True),
            (("claim", "epsilon"), "1.0"),
            (("claim", "epsilon"), -1.0),
            (("claim", "delta"), 1.0),
            (("relation",), "add"),
            (("schedule", "stages", 0, "rounds"), 1.5),
            (("schedule", "stages", 0, "rounds"), True),
            (("schedule", "stages", 0, "sampling_prob"), 1.5),
            (("schedule", "noise_multipliers", 0), 0.0),
            (("schedule", "budget", "rows_per_unit"), 0),
            (("events", "kind"), "parallel"),
            (("events", "events", 0, "kind"), "laplace"),
            (("events", "events", 0, "rounds"), 0),
            (("events", "events", 1, "sampling_prob"), 1.0),
            (("releases",), "1f"),
            (("files", "recipe.json"), "AB" * 32),
            (("versions", "jax"), "newest"),
            (("date",), "20260131"),
            (("recipe",), []),
            (("schema",), None),
        ],
    )
    def test_types_and_bounds(self, path, value):
        changed = content(IMAGES)
        at(changed, path[:-1])[path[-1]] = value
        assert not jsonschema.Draft202012Validator(json_schema()).is_valid(changed)
        with pytest.raises(CertificateError, match=r"^The certificate's '"):
            parse(changed)

    def test_nothing_is_converted_and_nothing_changes(self):
        certificate = parse(content(IMAGES))
        with pytest.raises(ValueError, match="frozen"):
            certificate.date = "2020-01-01"
        assert isinstance(certificate, Certificate)


def at(value, path):
    for key in path:
        value = value[key]
    return value


def objects(value, path=()):
    """Paths of the objects whose fields the format fixes."""
    if isinstance(value, dict) and path[:1] not in (("recipe",), ("schema",)):
        if path[:1] not in (("files",), ("groups",), ("epsilons",), ("attacker",)):
            yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield from objects(item, (*path, k))


class TestRoom:
    """What the format has room for, and no version can check."""

    CLAIMS: dict = {  # noqa: RUF012
        "choices": [{"field": "per_class", "chosen": 1, "candidates": [1, 10], "part": "held-out"}],
        "scores": [{"name": "accuracy", "value": 0.9, "part": "held-out"}],
        "attestations": [{"kind": "trusted platform", "sha256": "1f" * 32}],
    }

    def test_all_of_it_is_tried(self):
        assert tuple(self.CLAIMS) == CANNOT_CHECK

    @pytest.mark.parametrize("name", CANNOT_CHECK)
    def test_a_claim_has_a_form_and_is_refused(self, folder, name):
        certificate = content(folder) | {name: self.CLAIMS[name]}
        assert getattr(parse(certificate), name)
        write(folder, certificate)
        assert failed(folder) == {"certificate": f"The certificate states {name!r}, which this version cannot check."}

    @pytest.mark.parametrize("path", [("events",), ("events", "events", 1)])
    def test_a_part_is_refused(self, folder, path):
        certificate = content(folder)
        at(certificate, path)["part"] = "held-out"
        write(folder, certificate)
        assert failed(folder) == {
            "certificate": "An event reads the part held-out of the records: this version checks events that read all."
        }

    def test_a_tree_within_a_tree_is_composed(self, folder):
        certificate = content(folder)
        first, second = certificate["events"]["events"]
        inner = {"kind": "composition", "part": "all", "events": [second]}
        certificate["events"]["events"] = [first, inner]
        write(folder, certificate)
        assert failed(folder) == {}
        assert compose_events(parse(certificate).events) == (
            (1, Event(first["noise_multiplier"])),
            (2, Event(second["noise_multiplier"], 0.1)),
        )
        certificate["events"]["events"] = [inner, first]
        write(folder, certificate)
        assert failed(folder).keys() == {"events"}

    def test_the_part_of_an_inner_event_is_refused(self, folder):
        certificate = content(folder)
        inner = {**certificate["events"]["events"][1], "part": "held-out"}
        tree = {"kind": "composition", "part": "all", "events": [inner]}
        certificate["events"]["events"][1] = tree
        write(folder, certificate)
        assert failed(folder).keys() == {"certificate"}


class TestPublicInputs:
    def test_each_kind_of_a_recipe_is_named_once(self):
        drawn = {"kind": "Drawn", "pictures": 2000, "seed": 7}
        declared = {"kind": "PublicImages", "sha256": "ab" * 32, "pictures": 359, "word": "the caller"}
        fields = {
            "a": drawn,
            "kernel": {"kind": "FeatureKernel", "encoder": {"kind": "DrawnNet", "filters": "cd" * 32}},
        }
        found = public_inputs({"fields": {**fields, "b": [declared, drawn]}})
        assert [(each.kind, each.sha256, each.declared_by) for each in found] == [
            ("generated images", None, "dpdistill"),
            ("shipped filters", "cd" * 32, "dpdistill"),
            ("declared images", "ab" * 32, "the caller"),
        ]
        assert found[0].source == "program Drawn of dpdistill, 2000 images from seed 7"
        assert public_inputs({"fields": {"b": {**declared, "word": 3, "declared_by": "a ministry"}}})[
            0
        ].declared_by == ("a ministry")

    @pytest.mark.parametrize("recipe", [None, {}, {"fields": 3}, {"fields": {"a": {"kind": "PublicImages"}}}])
    def test_whatever_has_another_form_names_none(self, recipe):
        assert public_inputs(recipe) == []

    def test_an_entry_left_out_or_added_is_found(self, folder):
        certificate = content(folder)
        assert [each["kind"] for each in certificate["public_inputs"]] == ["generated images"]
        write(folder, {**certificate, "public_inputs": []})
        assert failed(folder).keys() == {"public inputs"}
        more = {"kind": "declared images", "sha256": "ab" * 32, "source": "a web page", "declared_by": "everybody"}
        write(folder, {**certificate, "public_inputs": [*certificate["public_inputs"], more]})
        assert failed(folder).keys() == {"public inputs"}


def test_facts_taken_from_the_records_are_those_of_the_set(folder):
    write(folder, {**content(folder), "inferred": ["classes"]})
    verification = dp.verify(folder)
    said = {check.name: check.detail for check in verification.checks if check.passed is False}
    assert said == {"schema": "synthetic.npz and the certificate differ in inferred."}


class TestEarlier:
    """Folders that the formats 5 and 6 were written in."""

    @pytest.mark.parametrize("name", EARLIER)
    def test_a_folder_passes(self, name):
        verification = dp.verify(HERE / "folders_v0_1" / name)
        assert [check for check in verification.checks if check.passed is False] == []
        assert verification.outcome in (PASSED, "GUARANTEE PASSED, DOCUMENTS NOT COMPARED")

    def test_which_folders_there_are(self):
        formats = {name: content(HERE / "folders_v0_1" / name)["format"] for name in EARLIER}
        assert formats == {
            **dict.fromkeys(("images-classifier", "images-dos", "images-non-private", "images-sampled"), 5),
            "table-units": 6,
        }

    @pytest.mark.parametrize("name", EARLIER)
    def test_it_becomes_a_certificate_of_this_format(self, name):
        earlier = content(HERE / "folders_v0_1" / name)
        assert is_earlier(earlier)
        certificate = parse(upgrade(earlier))
        assert certificate.format == 3
        assert in_this_format(earlier) == certificate.to_json() | {"schema": earlier["schema"]}
        for key in ("claim", "relation", "unit", "groups", "attacker", "epsilons", "files", "recipe", "scope"):
            assert certificate.to_json()[key] == earlier[key]
        if name == "table-units":
            assert certificate.group_privacy == earlier["group_privacy"]
            assert certificate.schedule.budget.unit == "patient_id"

    @pytest.mark.parametrize(
        "change",
        {
            "an unknown field": lambda c: c.update(audited="by us"),
            "a field of this format": lambda c: c.update(owners=[]),
            "a missing field": lambda c: c.pop("backend"),
            "another unit of the events": lambda c: c["events"].update(unit="hospital"),
            "another relation of the events": lambda c: c["events"].update(relation="replace-one"),
            "a field of the events": lambda c: c["events"].update(note="x"),
            "a release left out": lambda c: c["events"]["composition"].pop(),
            "a mechanism": lambda c: c["events"]["composition"][0].update(mechanism="laplace"),
            "sampling of a full batch": lambda c: c["events"]["composition"][0].update(sampling_prob=0.5),
            "a field of an event": lambda c: c["events"]["composition"][0].update(part="all"),
            "noise of an event": lambda c: c["events"]["composition"][0].update(noise_multiplier=1e9),
            "a claim": lambda c: c["claim"].update(epsilon=0.5),
            "a budget": lambda c: c["schedule"]["budget"].update(epsilon=0.5),
            "a budget without a unit": lambda c: c["schedule"]["budget"].pop("unit"),
            "the other format": lambda c: c.update(format=5),
            "no events": lambda c: c.update(events=None),
            "no schedule": lambda c: c.update(schedule=None),
            "a schedule of another kind": lambda c: c.update(schedule=3),
            "a recipe of another kind": lambda c: c.update(recipe=3),
            "a table": lambda c: c["groups"].update({"5": 1.0}),
            "group privacy": lambda c: c.update(group_privacy=1.0),
            "an epsilon that is true": lambda c: c["claim"].update(epsilon=True),
        }.items(),
        ids=lambda change: change[0],
    )
    def test_tampering_is_found(self, tmp_path, change):
        folder = Path(shutil.copytree(HERE / "folders_v0_1" / "table-units", tmp_path / "d"))
        certificate = content(folder)
        change[1](certificate)
        write(folder, certificate)
        assert failed(folder) != {}
        assert in_this_format(certificate)["format"] in (3, 5, 6)

    def test_a_page_of_another_wording_is_not_compared_and_another_epsilon_is_found(self, tmp_path):
        folder = Path(shutil.copytree(HERE / "folders_v0_1" / "images-dos", tmp_path / "d"))
        page = (folder / "report.html").read_text()
        (folder / "report.html").write_text(page.replace("</body>", "<p>another word</p></body>"))
        verification = dp.verify(folder)
        assert verification.outcome == "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"
        said = {check.name: check.detail for check in verification.checks}
        reason = "the folder was made with dpdistill 0.1.0 and an earlier format, so it was not compared"
        assert reason in said["report"]
        old = 'Epsilon, ε</dt><dd class="value">1'
        assert old in page
        (folder / "report.html").write_text(page.replace(old, 'Epsilon, ε</dt><dd class="value">0.001'))
        assert dp.verify(folder).outcome == FAILED
