"""The page of the API: it has every public name, and docstrings name parameters that there are."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dpdistill as dp

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")


def documented() -> dict[str, Any]:
    """Returns the objects that the page documents, by name."""
    found = {}
    for place, options in re.findall(r"^::: ([\w.]+)\n((?: .*\n)*)", PAGE, re.MULTILINE):
        members = re.search(r"members: \[([^\]]+)\]", options)
        parent, _, name = place.rpartition(".")
        if hasattr(import_module(parent), name) and not inspect.ismodule(getattr(import_module(parent), name)):
            found[name] = getattr(import_module(parent), name)
            continue
        module = import_module(place)
        public = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == place]
        found |= {each: getattr(module, each) for each in (members[1].split(", ") if members else public)}
    return found


def is_error(value: object) -> bool:
    """Returns whether a value is a class of exceptions, which have no signature."""
    return isinstance(value, type) and issubclass(value, BaseException)


DOCUMENTED = documented()


def test_it_has_every_public_name():
    assert len(dp.__all__) > 90
    assert [name for name in dp.__all__ if DOCUMENTED.get(name) is not getattr(dp, name)] == []


@pytest.mark.parametrize(
    "name", [name for name, value in DOCUMENTED.items() if callable(value) and not is_error(value)]
)
def test_a_docstring_names_parameters_that_there_are(name):
    about = DOCUMENTED[name]
    section = re.search(r"^Args:\n((?: .*\n|\n)+)", f"{inspect.getdoc(about)}\n", re.MULTILINE)
    stated = re.findall(r"^    (\S[^:\n]*):", section[1], re.MULTILINE) if section else []
    fields = {each for base in getattr(about, "__mro__", ()) for each in getattr(base, "__annotations__", ())}
    assert {*stated} <= {*inspect.signature(about).parameters} | fields
