"""verify on folders as runs leave them: each way to change one is found, from Python and from the command line."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3

import numpy as np
import pytest

import dpdistill as dp
from dpdistill.cli.app import _command, app
from dpdistill.cli.terminal import run_app
from dpdistill.kernels import KERNELS
from dpdistill.publish.export import write_documents
from dpdistill.publish.report import write_report
from dpdistill.query import SLACK_TEXT
from dpdistill.sources.images.npz import write_file
from dpdistill.verification import _of_method

METHODS = {
    "ldpdc": dp.LDPDC(per_class=1, sampling_prob=1.0),
    "dp-kip": dp.DPKIP(per_class=1, rounds=2, sampling_prob=1.0),
}


def write_pages(folder):
    """Whatever is made from the folder's contents, as somebody who changed them would make it."""
    write_report(folder)
    write_documents(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with its run beside it, a method."""
    place, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    X, y = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8), np.arange(40) % 2
    records = dp.Records.from_arrays(X, y, classes=["cat", "dog"], bounds=(0, 255))
    for name, method in METHODS.items():
        dp.distill(records, method, dp.Budget(1.0), run_dir=place / f"{name}.run").save(place / name)
    return place


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made / "ldpdc", tmp_path / "d")
    return tmp_path / "d"


def look(folder):
    """Names of the checks that failed, and what all of them say."""
    checks = dp.verify(folder).checks
    assert all(check.detail.isascii() for check in checks)
    return [check.name for check in checks if check.passed is False], {check.name: check.detail for check in checks}


def edit(folder, change, name="certificate.json"):
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_text(json.dumps(data, indent=2, ensure_ascii=name == "recipe.json") + "\n")


def hash_anew(folder, name):
    """The certificate of somebody who knows how: it lists the file as it is, and the page shows it."""
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    edit(folder, lambda certificate: certificate["files"].update({name: digest}))
    write_pages(folder)


def forge(folder, **recipe):
    """Change the recipe everywhere it is written."""
    edit(folder, lambda found: found.update(recipe), "recipe.json")
    edit(folder, lambda certificate: certificate["recipe"].update(recipe))
    hash_anew(folder, "recipe.json")


@pytest.mark.parametrize("name", METHODS)
def test_an_honest_folder_passes_every_check(made, name):
    verification = dp.verify(made / name)
    assert verification.passed
    open_checks = {check.name for check in verification.checks if check.passed is None}
    assert open_checks == {"self-test", "releases", "looser bound", "covered", "scope"}
    certificate = json.loads((made / name / "certificate.json").read_text())
    assert certificate["recipe"] == json.loads((made / name / "recipe.json").read_text())
    assert certificate["slack"] == (SLACK_TEXT if name == "dp-kip" else None)
    assert certificate["backend"].startswith(("cpu", "gpu"))


def test_the_command_says_what_python_says(folder, capsys):
    marks = {True: "ok   ", False: "FAIL ", None: "     "}
    for expected, outcome in ((0, "PASSED"), (4, "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"), (1, "FAILED")):
        assert run_app(lambda **how: app(["verify", str(folder)], **how)) == expected
        found = dp.verify(folder)
        assert (found.outcome, found.passed) == (outcome, expected == 0)
        said = "".join(f"{marks[check.passed]}{check.name}: {check.detail}\n" for check in found.checks)
        assert capsys.readouterr().out == f"{said}{outcome}\n"
        assert run_app(lambda **how: _command()(["verify", str(folder), "--json"], **how)) == expected
        told = json.loads(capsys.readouterr().out)
        assert (told["exit_code"], told["outcome"], told["passed"]) == (expected, outcome, expected == 0)
        assert told["text"][-1] == outcome
        assert [check["compared"] for check in told["checks"]] == [check.compared for check in found.checks]
        if outcome == "PASSED":
            edit(folder, lambda certificate: certificate["versions"].update(dpdistill="9.9.0"))
        else:
            edit(folder, lambda certificate: certificate.update(noise="secret"))


def test_an_edited_page(folder):
    page = (folder / "report.html").read_text()
    (folder / "report.html").write_text(page.replace("cat", "rat"))
    assert look(folder)[0] == ["report"]
    write_pages(folder)
    assert (folder / "report.html").read_text() == page


def test_added_scores(folder):
    (folder / "scores.json").write_text('{"accuracy": 1.0}')
    assert look(folder)[0] == ["report", "croissant.json", "deployment.yaml"]
    write_pages(folder)
    names, said = look(folder)
    assert names == []
    assert said["not covered"] == "scores.json holds scores on test records: epsilon does not cover them."


def test_extra_files(folder):
    np.savez(folder / "more.npz", X=np.zeros(3))
    assert look(folder)[0] == ["files"]
    (folder / "more.npz").rename(folder / "more.bin")
    names, said = look(folder)
    assert names == []
    assert said["not covered"] == "more.bin is not in the certificate and was not checked."


def test_a_recipe_that_is_gone(folder):
    (folder / "recipe.json").unlink()
    names, said = look(folder)
    assert names == ["files", "folder", "recipe"]
    assert "Expected recipe.json in" in said["folder"]


def test_a_recipe_with_another_title(folder):
    edit(folder, lambda recipe: recipe.update(title="Private for ever"), "recipe.json")
    assert look(folder)[0] == ["files", "recipe", "report"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", "Private for ever"),
        ("references", []),
        ("origin", "caller changed count_floor"),
        ("origin", "package default"),
        ("changed", []),
    ],
)
def test_a_recipe_that_is_not_its_methods_own(folder, key, value):
    forge(folder, **{key: value})
    names, said = look(folder)
    assert names == ["origin"]
    assert said["origin"] == f"The method states another {key} for these fields."


def test_an_unknown_method_is_said(folder):
    forge(folder, method="new")
    edit(folder, lambda certificate: certificate.update(slack="nothing is lost"))
    write_pages(folder)
    names, said = look(folder)
    assert names == ["slack"]
    assert dp.verify(folder).outcome == "FAILED"
    for name in ("origin", "plan"):
        assert "The recipe is unknown to this version" in said[name]


def test_a_foreign_unit(folder):
    edit(folder, lambda certificate: certificate["schema"].update(unit="hospital"))
    row = "one row (adding or removing one row);"
    edit(folder, lambda c: c.update(unit=c["unit"].replace(row, f"{row} a row stands for: hospital;")))
    write_pages(folder)
    names, said = look(folder)
    assert names == ["schema"]
    assert said["schema"] == "synthetic.npz and the certificate differ in unit."


@pytest.mark.parametrize(("name", "slack"), [("ldpdc", SLACK_TEXT), ("dp-kip", None), ("dp-kip", "none at all")])
def test_a_false_slack(made, tmp_path, name, slack):
    shutil.copytree(made / name, tmp_path / "d")
    edit(tmp_path / "d", lambda certificate: certificate.update(slack=slack))
    write_pages(tmp_path / "d")
    assert look(tmp_path / "d")[0] == ["slack"]


@pytest.mark.parametrize(
    ("name", "names"), [("certificate.json", ["certificate"]), ("recipe.json", ["files", "folder", "recipe"])]
)
def test_a_name_twice(folder, name, names):
    text = (folder / name).read_text()
    (folder / name).write_text('{"method": "none", "noise": "none",' + text.removeprefix("{"))
    assert look(folder)[0] == names


def test_replaced_records_beside_their_run(made, tmp_path):
    shutil.copytree(made, tmp_path / "all")
    folder = tmp_path / "all" / "ldpdc"
    with np.load(folder / "synthetic.npz") as saved:
        arrays = {**saved, "X": saved["X"][::-1]}
    write_file(folder / "synthetic.npz", arrays)
    hash_anew(folder, "synthetic.npz")
    assert look(folder)[0] == ["contents", "handover"]


def test_records_that_cannot_be_read(folder):
    np.savez_compressed(folder / "synthetic.npz", X=np.zeros(3))
    names, said = look(folder)
    assert names == ["files", "folder"]
    assert "found compressed ones" in said["folder"]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["groups"].update({"5": [{}]}),
        lambda c: c["epsilons"].update({"1e-08": {"a": "b"}}),
        lambda c: c["recipe"].update(fields={"per_class": {}}, method=[], seed="x", references={"a": 1}),
        lambda c: c.update(schema={"columns": 3}),
        lambda c: c.update(claim={"epsilon": [], "delta": {}}),
        lambda c: c["recipe"].update(fields={"per_class": 10**400}),
    ],
)
def test_whatever_a_certificate_says_it_is_no_traceback(folder, change):
    edit(folder, change)
    assert look(folder)[0] != []


def test_a_recipe_that_its_method_does_not_take(folder):
    """It was 'unknown to this version', so that any schedule passed beside it."""
    for fields in ({"per_class": "1"}, {"per_class": True}, {"steps": 1}):
        forge(folder, fields=fields)
        names, said = look(folder)
        assert "plan" in names
        assert said["plan"].endswith("but this version refuses the recipe.")
    edit(folder, lambda c: c["versions"].update(dpdistill="0.0.9"))
    assert look(folder)[1]["plan"].endswith("its plan was not checked.")


def test_a_method_without_a_private_form_claims_no_epsilon(folder):
    forge(folder, method="kip", fields={"per_class": 1, "rounds": 2})
    names, said = look(folder)
    assert "plan" in names
    assert said["plan"] == "The recipe's method has no private form, yet the certificate claims an epsilon."


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("deployment.yaml", "epsilon: 1.0", "epsilon: 0.001"),
        ("croissant.json", "epsilon = 1 ", "epsilon = 0.001 "),
        ("README.md", "ε | **1", "ε | **0.001"),
        ("report.html", 'Epsilon, ε</dt><dd class="value">1', 'Epsilon, ε</dt><dd class="value">0.001'),
    ],
)
def test_another_version_explains_other_words_and_no_other_epsilon(folder, name, old, new):
    edit(folder, lambda c: c["versions"].update(dpdistill="0.0.9"))
    (folder / "report.html").write_bytes((folder / "report.html").read_bytes() + b"<!-- -->")
    assert not {"report", name} & set(look(folder)[0])
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    assert ("report" if name == "report.html" else name) in look(folder)[0]


def test_what_a_certificate_cannot_hold(folder):
    for change, sentence in (
        (lambda c: c["schedule"].update(note="the true epsilon is 0.0001"), "does not know: schedule.note"),
        (lambda c: c["schedule"]["stages"][0].update(rounds=2_000_000), "a plan of at most 1,000,000 rounds"),
        (lambda c: c.update(date="1999-99-99"), "'date' is not a date"),
    ):
        saved = (folder / "certificate.json").read_bytes()
        edit(folder, change)
        assert sentence in look(folder)[1]["certificate"]
        (folder / "certificate.json").write_bytes(saved)


def test_a_ledger_is_not_to_be_shared(folder):
    """It holds key and digest of the records: who has the records is told whether they are those of the run."""
    with sqlite3.connect(folder / "all") as db:
        db.execute("CREATE TABLE ledger (key BLOB)")
    names, said = look(folder)
    assert names == ["files"]
    assert "all is not in the certificate" in said["files"]


def test_what_a_file_manager_leaves_is_named(folder):
    for name in (".DS_Store", "Thumbs.db"):
        (folder / "images" / name).write_bytes(b"\0")
    names, said = look(folder)
    assert names == []
    assert "images/" in said["not covered"]


def slacks(method, fields):
    return _of_method({"method": method, "fields": fields})["slacks"]


def test_the_slack_of_every_method_is_known():
    for name in ("dos", "ndpdc", "ldpdc", "dp-merf", "dp-hp"):
        assert slacks(name, {}) == (None,)
    for kernel in ("fc-ntk", "scatternet-white"):
        assert slacks("dp-kip", {"kernel": KERNELS[kernel]}) == (SLACK_TEXT,)
    assert slacks("dp-kip", {"kernel": KERNELS["conv-ntk"]}) == (None,)
    assert slacks("decoupled-kip", {}) == slacks("dp-kip", {}) == (SLACK_TEXT,)
    assert slacks("new", {}) == slacks("dos", {"per_class": "many"}) == (None, SLACK_TEXT)
