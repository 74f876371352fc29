"""The command line and Python take the same road: equal results, files and refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_command import dpdistill, refused, succeeds

import dpdistill as dp

TABLE = "age,job,income\n" + "".join(f"{20 + i % 50},{'ab'[i % 2]},{'low' if i % 3 else 'high'}\n" for i in range(60))
DRAWN = ["--set", "rounds=2", "--set", "networks=2", "--set", "width=4", "--set", "steps=2", "--per-class", 1]


def result_of(*argv: object) -> dict:
    """Returns what --json prints, without the lines of text."""
    found = json.loads(succeeds(*argv, "--json"))
    del found["text"], found["exit_code"]
    return found


def as_json(value: object) -> object:
    return json.loads(json.dumps(value, default=str))


def bytes_in(place: Path) -> dict[str, bytes]:
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as found:
        return dict(found)


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("both")


@pytest.fixture(scope="module")
def rows(places) -> Path:
    """A table's result with a generator, paid in a ledger."""
    (places / "rows.csv").write_text(TABLE)
    succeeds("schema", "draft", places / "rows.csv", "--out", places / "rows.yaml")
    text = (places / "rows.yaml").read_text()
    (places / "rows.yaml").write_text(text.replace("reviewed: false", "reviewed: true"))
    dp.begin_ledger(places / "rows.ledger", 2.0)
    paid = ("--schema", places / "rows.yaml", "--ledger", places / "rows.ledger")
    succeeds("distill", places / "rows.csv", "--out", places / "rows", *paid, "--set", "steps=2")
    return places / "rows"


@pytest.fixture(scope="module")
def images(places) -> Path:
    """A result of images with a classifier and a generator."""
    small = (*DRAWN, "--set", "generator_steps=2")
    succeeds("distill", "digits:train", "--out", places / "images", "--method", "dos-kip", *small)
    return places / "images"


@pytest.mark.parametrize(("to", "out"), [("csv", "both.csv"), ("card", "both.md"), ("hf", "both-hf")])
def test_export(rows, tmp_path, to, out):
    about = ["name=Incomes", "license=cc-by-4.0"]
    for name in ("cli", "python", "third"):
        (tmp_path / name).mkdir()
    found = result_of(
        "export", rows, "--to", to, "--out", tmp_path / "cli" / out, "--about", about[0], "--about", about[1]
    )
    done = dp.export(rows, to, tmp_path / "python" / out, about)
    assert bytes_in(tmp_path / "cli" / out) == bytes_in(done.path) != {}
    expected = {"out": str(tmp_path / "cli" / out), "format": to, "document": done.document, "open": [*done.open]}
    assert found == expected
    assert done.guaranteed
    assert ("curator" in done.open) is (to != "csv")
    stated = dp.Publisher(name="Incomes", license="cc-by-4.0")
    assert bytes_in(dp.export(rows, to, tmp_path / "third" / out, stated).path) == bytes_in(done.path)


def test_a_file_of_what_a_publisher_states(rows, tmp_path):
    (tmp_path / "about.yaml").write_text("name: Incomes\ncurator: Office\n")
    where = ("--about-file", tmp_path / "about.yaml", "--about", "name=Other")
    succeeds("export", rows, "--to", "card", "--out", tmp_path / "cli.md", *where)
    done = dp.export(rows, "card", tmp_path / "python.md", ["name=Other"], about_file=tmp_path / "about.yaml")
    assert (tmp_path / "cli.md").read_bytes() == done.path.read_bytes()
    with pytest.raises(dp.DataError, match="Expected a Publisher or about_file, not both"):
        dp.export(rows, "card", tmp_path / "x.md", dp.Publisher(), about_file=tmp_path / "about.yaml")


def test_verify(rows):
    found, result = result_of("verify", rows), dp.verify(rows)
    assert found == as_json(
        {"outcome": result.outcome, "passed": result.passed, "checks": [vars(check) for check in result.checks]}
    )
    assert result.passed


def test_report(rows):
    page = rows / "report.html"
    before = page.read_bytes()
    assert result_of("report", rows) == {"page": str(page)}
    page.unlink()
    assert dp.report(rows) == page
    assert page.read_bytes() == before


def test_methods():
    found, listed = result_of("methods"), dp.list_methods()
    assert [*found["methods"]] == [method.name for method in listed]
    for method in listed:
        shown = found["methods"][method.name]
        assert (shown["title"], shown["private"]) == (method.title, method.private)
        fields = [{"name": name, **facts} for name, facts in shown["fields"].items()]
        assert fields == [vars(field) for field in method.fields]
    assert tuple(found["kernels"]) == dp.list_kernels()
    assert result_of("methods", "dos-kip")["methods"] == {"dos-kip": found["methods"]["dos-kip"]}
    assert dp.list_methods("dos-kip") == tuple(method for method in listed if method.name == "dos-kip")


def test_recipes():
    listed = dp.list_recipes()
    found = result_of("methods", "--recipes")["recipes"]
    assert found == {each.name: {"method": each.method, "source": f"{each.paper}, {each.where}"} for each in listed}
    known = {recipe.name: recipe for recipe in listed}
    assert known["dos-kip-cifar10-eps1-ipc10"].epsilon == 1.0
    assert any(recipe.notes for recipe in listed)


@pytest.mark.parametrize(
    "stated",
    [
        {"epsilon": 1.0},
        {"noise_multiplier": 2.0, "rounds": 3, "sampling_prob": 0.1},
        {"epsilon": 0.5, "delta": 1e-6, "adjacency": "replace-one"},
    ],
)
def test_account(stated):
    words = [word for name, value in stated.items() for word in (f"--{name.replace('_', '-')}", value)]
    found, schedule = result_of("account", *words), dp.account(**stated)
    assert found["noise_multiplier"] == schedule.noise_multipliers[0]
    assert found["epsilons"] == {f"{delta:g}": epsilon for delta, epsilon in schedule.epsilons().items()}
    assert schedule.epsilon() == pytest.approx(stated.get("epsilon", schedule.budget.epsilon), rel=1e-4)


def test_account_warns_in_both(caplog):
    _, _, err = dpdistill("account", "--epsilon", 1, "--delta", 1e-3)
    with caplog.at_level("WARNING", logger="dpdistill"):
        dp.account(epsilon=1.0, delta=1e-3)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("delta = 0.001 is large")
    assert err == f"Warning: {said}\n"


def test_budget(rows, tmp_path):
    file = rows.parent / "rows.ledger"
    found, summary = result_of("budget", file), dp.ledger_summary(file)
    (run,) = summary.runs
    assert found["runs"] == as_json(
        [{"run": run.label, "date": run.date, "payer": run.payer, **vars(run.schedule.budget)}]
    )
    for name in ("spent", "delta", "adjacency", "cap", "left", "head"):
        assert found[name] == getattr(summary, name)
    assert (summary.cap, run.label) == (2.0, "rows")
    assert 0.99 < summary.spent < 1.01
    succeeds("budget", "new", tmp_path / "cli.ledger", "--cap", 1.5)
    assert dp.begin_ledger(tmp_path / "python.ledger", 1.5) == tmp_path / "python.ledger"
    summaries = [dp.ledger_summary(tmp_path / name) for name in ("cli.ledger", "python.ledger")]
    assert replace(summaries[0], head=None) == replace(summaries[1], head=None)
    assert summaries[0].head != summaries[1].head, "32 random bytes each"
    assert summaries[0].cap == 1.5


def test_schemas(rows, tmp_path):
    data = rows.parent / "rows.csv"
    found = result_of("schema", "draft", data, "--out", tmp_path / "cli.yaml", "--label", "job")
    drafted = dp.draft_schema(data, tmp_path / "python.yaml", label="job")
    assert drafted.path is not None
    assert drafted.path.read_bytes() == (tmp_path / "cli.yaml").read_bytes()
    assert found["facts_from_the_records"] == len(drafted.notes) > 0
    assert drafted.schema.label == "job"
    assert dp.draft_schema(data, label="job").path is None
    checked = dp.check_table(data, rows.parent / "rows.yaml")
    code, out, _ = dpdistill("schema", "check", data, rows.parent / "rows.yaml")
    assert (code, tuple(out.splitlines()[: len(checked.lines)])) == (0, checked.lines)
    assert result_of("schema", "check", data, rows.parent / "rows.yaml")["fits"] is checked.fits is True


def test_sample_of_rows(rows, tmp_path):
    found = result_of("sample", rows, "--n", 30, "--out", tmp_path / "cli.csv", "--seed", 3)
    assert found == {"out": str(tmp_path / "cli.csv"), "records": 30, "kind": "rows"}
    made, unwritten = dp.sample(rows, 30, tmp_path / "python.csv", seed=3), dp.sample(rows, 30, seed=3)
    assert (tmp_path / "cli.csv").read_bytes() == (tmp_path / "python.csv").read_bytes()
    np.testing.assert_array_equal(made.X, unwritten.X)
    assert (unwritten.path, len(made), repr(made)) == (None, 30, "Sample(30 rows)")
    assert [*made.to_frame().columns] == ["age", "job", "income"]
    assert not np.array_equal(made.X, dp.sample(rows, 30, seed=4).X)


@pytest.mark.parametrize(
    ("words", "how"),
    [
        pytest.param([], {}, marks=pytest.mark.variants),
        pytest.param(["--kind", "drawn", "--slopes"], {"kind": "drawn", "slopes": True}, marks=pytest.mark.variants),
        (["--kind", "mixed+generated"], {"kind": "mixed+generated"}),
    ],
)
def test_sample_of_pictures(images, tmp_path, words, how):
    found = result_of("sample", images, "--n", 6, "--out", tmp_path / "cli.npz", *words)
    made = dp.sample(images, 6, tmp_path / "python.npz", **how)
    assert found == {"out": str(tmp_path / "cli.npz"), "records": 6, "kind": made.kind}
    ours, theirs = arrays_in(tmp_path / "python.npz"), arrays_in(tmp_path / "cli.npz")
    assert {*ours} == {*theirs}
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
    np.testing.assert_array_equal(made.X, ours["X"])
    np.testing.assert_array_equal(made.y, ours["y"])
    assert json.loads(str(ours["about"])) == made.about
    if made.scores is None:
        assert made.kind == "generated"
        assert "targets" not in ours
    else:
        np.testing.assert_array_equal(made.scores.astype("<f4"), ours["targets"])
        np.testing.assert_array_equal(made.scores.argmax(1), made.y)
    assert ("slopes" in made.arrays) is how.get("slopes", False)
    with pytest.raises(dp.DataError, match="Expected rows of a table"):
        made.to_frame()


def test_the_demo(tmp_path):
    found = result_of("demo", "--out", tmp_path / "cli", "--epsilon", 5)
    shown = dp.demo(tmp_path / "python", 5.0)
    assert found["accuracy_without"] == shown.accuracy_without > 85.0
    assert (found["folder"], shown.path.name, shown.records) == (str(tmp_path / "cli"), "python", 1438)
    assert shown.result.epsilon <= 5.0
    assert dp.verify(shown.path).passed


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["account"], lambda _: dp.account()),
        (["account", "--epsilon", 1, "--rounds", 0], lambda _: dp.account(epsilon=1.0, rounds=0)),
        (["methods", "nosuch"], lambda _: dp.list_methods("nosuch")),
        (["budget", "{}.ledger"], lambda place: dp.ledger_summary(f"{place}.ledger")),
        (["budget", "new", "{}.ledger", "--cap", -1], lambda place: dp.begin_ledger(f"{place}.ledger", -1.0)),
        (["export", "{}", "--to", "nosuch", "--out", "x"], lambda place: dp.export(place, "nosuch", "x")),
        (["report", "{}"], lambda place: dp.report(place)),
        (["sample", "{}", "--n", 1, "--out", "x.csv"], lambda place: dp.sample(place, 1, "x.csv")),
        (["schema", "draft", "{}", "--out", "x.yaml"], lambda place: dp.draft_schema(place, "x.yaml")),
        (["schema", "check", "{}", "{}"], lambda place: dp.check_table(place, place)),
    ],
)
def test_refusals(words, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "nowhere"
    with pytest.raises((dp.DPDistillError, ValueError, OSError)) as error:
        call(place)
    sentence = refused(*(str(word).format(place) for word in words))
    assert str(error.value).rstrip(".") == sentence.rstrip(".")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"kind": "nosuch"}, "Unknown kind 'nosuch' of images"),
        ({"format": "dpimagebench"}, "Expected --out as a folder with --format"),
        ({"slopes": True, "kind": "generated"}, "Expected --slopes with scored images"),
        ({"seed": -1}, "Expected seed=-1 as a whole number from 0 to 4294967295"),
        ({"n": 0}, "Expected n=0 as a whole number >= 1"),
        ({"n": 2.0}, "Expected n=2.0 as a whole number >= 1"),
    ],
)
def test_what_python_alone_can_state_of_a_sample(images, how, sentence):
    with pytest.raises(dp.DataError) as error:
        dp.sample(images, **{"n": 2, **how})
    assert str(error.value).startswith(sentence)


def test_pictures_have_options_that_rows_have_not(rows):
    for how in ({"kind": "drawn"}, {"format": "dpimagebench"}, {"slopes": True}):
        (name,) = how
        with pytest.raises(dp.DataError, match=f"holds a table: --{name} is for images"):
            dp.sample(rows, 2, **how)
