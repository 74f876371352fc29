"""Public facts from JSON: exactly their types, with the place and the value of what is otherwise."""

from __future__ import annotations

import json

import pytest

from dpdistill.schema import Column, DataError, Schema, TableSchema, schema_from_json

COLUMNS = (Column("age", "integer", (0.0, 100.0)), Column("job", "categorical", categories=("a", "b"), missing=True))
TABLE = TableSchema(COLUMNS, "ill", ("no", "yes"), (("0",), ("1", "2")), "patient")
IMAGES = Schema((4, 5, 3), (0.0, 255.0), ("cat", "dog"))


@pytest.mark.parametrize("schema", [TABLE, IMAGES])
def test_what_is_written_is_read(schema):
    found = schema_from_json(json.loads(json.dumps(schema.to_json())))
    assert found == schema
    assert hash(found) == hash(schema)


def changed(schema, place, value):
    facts = json.loads(json.dumps(schema.to_json()))
    part = facts
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return facts


@pytest.mark.parametrize(
    ("schema", "place", "value", "message"),
    [
        (TABLE, ["label"], 3, "Expected label as a text; got 3."),
        (TABLE, ["classes", 1], True, "Expected classes[2] as a text; got True."),
        (TABLE, ["columns"], "age", "Expected columns as a list; got 'age'."),
        (TABLE, ["columns", 0], [], "Expected columns[1] as a mapping; got []."),
        (TABLE, ["columns", 0, "name"], 7, "Expected columns[1].name of 7 as a text; got 7."),
        (TABLE, ["columns", 1, "missing"], "no", "Expected columns[2].missing of 'job' as true or false; got 'no'."),
        (TABLE, ["columns", 1, "missing"], 1, "Expected columns[2].missing of 'job' as true or false; got 1."),
        (
            TABLE,
            ["columns", 0, "bounds", 1],
            "9",
            "Expected columns[1].bounds[2] of 'age' as a number (1e30 at most); got '9'.",
        ),
        (TABLE, ["columns", 0, "kind"], "int", "Expected columns[1].kind of 'age' among 'numeric', 'integer', "),
        (TABLE, ["columns", 0, "bounds"], [9, 0], "Expected bounds low < high of column 'age', both finite; got"),
        (
            TABLE,
            ["columns", 0, "bounds"],
            [0, 1, 2],
            "Expected columns[1].bounds of 'age' as a shorter list; got 0, 1, 2.",
        ),
        (TABLE, ["columns", 0, "mean"], 41, "Unknown key 'mean' in columns[1] of 'age'; expected name, kind, bounds,"),
        (
            TABLE,
            ["mean"],
            41,
            "Unknown key 'mean' in the schema; expected columns, label, classes, labels, unit, constraints, "
            "combinations, target, edges.",
        ),
        (TABLE, ["unit"], "x" * 999 + " ", "Expected unit as a text without spaces around it; got 'xxx"),
        (TABLE, ["classes", 0], "", "Expected each class and its values as a text without spaces around it; got ''."),
        (IMAGES, ["shape", 0], 4.5, "Expected shape[1] as a whole number; got 4.5."),
        (IMAGES, ["bounds", 0], None, "Expected bounds[1] as a number (1e30 at most); got None."),
        (IMAGES, ["bounds"], [1, 0], "Expected bounds low < high, both finite; got (1.0, 0.0)."),
    ],
)
def test_other_types(schema, place, value, message):
    with pytest.raises((DataError, TypeError)) as caught:
        schema_from_json(changed(schema, place, value))
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 200


def test_what_is_missing():
    facts = IMAGES.to_json()
    del facts["bounds"]
    with pytest.raises(TypeError, match=r"^Expected bounds, which is missing\.$"):
        Schema.from_json(facts)


def test_a_class_needs_a_value():
    with pytest.raises(DataError, match=r"^Expected distinct values of 'y' for each of 2 classes\.$"):
        TableSchema(COLUMNS, "y", ("a", "b"), ((), ("b",)))
