"""YAML that people write: every key once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from dpdistill.schema import DataError


class _Once:
    """A key may be written once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DataError(f"Expected a text as key in line {key.start_mark.line + 1}.")
            if key.value in seen:
                raise DataError(f"Key {key.value!r} is written twice, again in line {key.start_mark.line + 1}.")
            seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[misc]


class _Texts(_Once, yaml.BaseLoader):
    """Every scalar is a text."""


class _Values(_Once, yaml.SafeLoader):
    """Scalars are what YAML 1.1 takes them for."""


def load_yaml(content: bytes, texts: bool = True) -> Any:
    """What YAML says, every scalar a text, or else numbers, dates and flags where they look so.

    Raises:
        DataError: what is no YAML, with the line, or a key that is written twice.
    """
    try:
        return yaml.load(content.decode("utf-8"), _Texts if texts else _Values)
    except UnicodeDecodeError:
        raise DataError("Expected UTF-8 text; the file is binary or of another encoding.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise DataError(f"Expected YAML; {error.problem or error.context}{where}.") from None
    except (yaml.YAMLError, RecursionError):
        raise DataError("Expected YAML; the text has characters or a nesting that it does not allow.") from None
