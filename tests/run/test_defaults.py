"""What the public functions do where a caller names no method, and how a result is shown."""

import dataclasses
import importlib.util
import inspect
import re

import numpy as np
import pytest
from contract import make_records, table_records

import dpdistill
from dpdistill import run
from dpdistill.methods import DOSKIP, DPMERF, METHODS
from dpdistill.recipe.methods import RECIPES, default_recipe, method_for
from dpdistill.recipe.parts import implement
from dpdistill.run import driver


class Stopped(Exception):
    pass


@pytest.mark.parametrize(("records", "expected"), [(make_records(4), DOSKIP()), (table_records(4), DPMERF())])
def test_records_without_a_method_take_the_default_of_their_kind(records, expected, monkeypatch):
    taken = []

    def private(method):
        taken.append(method)
        raise Stopped

    monkeypatch.setattr(driver, "check_private", private)
    with pytest.raises(Stopped):
        dpdistill.distill(records)
    assert taken == [expected]
    assert implement(default_recipe(records.schema)) == expected
    assert method_for(type(records.schema)) == expected.name


def test_the_two_tables_of_methods_are_one():
    assert list(METHODS) == list(RECIPES)
    for name, method in METHODS.items():
        assert issubclass(method, RECIPES[name])
        assert method.__name__ == RECIPES[name].__name__
        assert implement(RECIPES[name]()) == method()
        assert method.plan(method()) == RECIPES[name]().plan()


def test_a_result_is_shown_in_one_line():
    records = make_records(8)
    result = run.distill_without_privacy(records, METHODS["ldpdc"](per_class=2, sampling_prob=1.0))
    classes = len(records.schema.classes)
    assert repr(result) == f"Result(ldpdc, {2 * classes} records of {classes} classes, epsilon=infinite)"
    assert np.isinf(result.epsilon)


NEVER_RAISES = {"doctor", "verify"}
"""Public functions with arguments that refuse none: a damaged folder, or none, is a failed check."""


def missing_sections(each) -> list[str]:
    """Returns what the docstring of a public function or class lacks, as its signature demands."""
    doc = inspect.getdoc(each) or ""
    if inspect.isclass(each) and issubclass(each, Exception):
        return [] if doc else ["a sentence"]
    fields = {field.name: field for field in dataclasses.fields(each)} if dataclasses.is_dataclass(each) else {}
    taken = [name for name in inspect.signature(each).parameters if name not in ("self", "args", "kwargs")]
    taken = [name for name in taken if not (name in fields and "help" in fields[name].metadata)]
    args = doc.partition("\nArgs:\n")[2].partition("\n\n")[0]
    missing = [name for name in taken if not re.search(rf"\b{name}\b", args)]
    if inspect.isclass(each):
        return missing
    if inspect.signature(each).return_annotation not in ("None", None):
        missing += [] if doc.startswith("Returns") or "\nReturns:\n" in doc else ["Returns"]
    if taken and each.__name__ not in NEVER_RAISES and "\nRaises:\n" not in doc:
        missing.append("Raises")
    return missing


def test_the_public_names_are_documented_and_no_other_leaks():
    assert sorted([*dpdistill.__all__, "__version__"]) == dir(dpdistill)
    found = {name: getattr(dpdistill, name) for name in dpdistill.__all__}
    assert {name: each.__name__ for name, each in found.items()} == {name: name for name in found}
    assert {name: missing for name, each in found.items() if (missing := missing_sections(each))} == {}
    for name in ("Any", "cache", "TYPE_CHECKING", "import_module", "_PLACES"):
        assert name not in dir(dpdistill)


def test_a_docstring_that_lacks_a_section_is_found():
    def undocumented(folder: str, seed: int) -> int:
        """Counts.

        Args:
            folder: where.
        """
        return 1

    assert missing_sections(undocumented) == ["seed", "Returns", "Raises"]


def test_a_public_name_is_no_module():
    for name in dpdistill.__all__:
        assert importlib.util.find_spec(f"dpdistill.{name}") is None, name


def test_every_error_is_one_of_the_package():
    errors = [getattr(dpdistill, name) for name in dpdistill.__all__ if name.endswith("Error")]
    assert len(errors) == 5
    assert all(issubclass(error, dpdistill.DPDistillError) for error in errors)


def test_a_recipe_is_run_by_every_entry_as_its_method(tmp_path):
    recipe, records = RECIPES["ldpdc"](per_class=2, sampling_prob=1.0), make_records(8)
    plain = run.distill_without_privacy(records, recipe)
    np.testing.assert_array_equal(plain.X, run.distill_without_privacy(records, implement(recipe)).X)
    paid = run.distill(records, recipe, run_dir=tmp_path / "run")
    np.testing.assert_array_equal(run.finish_again(tmp_path / "run", recipe).X, paid.X)


def test_a_run_is_resumed_whoever_stated_its_public_facts(tmp_path):
    records = make_records(8)
    method = METHODS["ldpdc"](per_class=2, sampling_prob=1.0)
    paid = run.distill(records, method, run_dir=tmp_path / "run")
    facts = dataclasses.replace(records.schema, inferred=("classes",))
    again = run.distill(dataclasses.replace(records, schema=facts), method, run_dir=tmp_path / "run")
    np.testing.assert_array_equal(again.X, paid.X)
    assert again.distilled.schema.inferred == ("classes",)
    again.save(tmp_path / "shared")
    assert dpdistill.verify(tmp_path / "shared", tmp_path / "run").passed
