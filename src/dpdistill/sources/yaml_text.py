"""Reads YAML with unique keys, and writes YAML whose texts are texts to every YAML version."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from dpdistill.schema import DataError

_AMBIGUOUS = re.compile(r"[-+.\d][-+.,:_\da-fox]*|~|y|n|yes|no|on|off|true|false|null|[-+]?\.?(nan|inf)", re.IGNORECASE)
"""Texts that some YAML version reads as a number, a time, a flag or null: 08, 1e3, no, 12:30."""


class _Once:
    """Loader that refuses repeated keys."""

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
    """Loader of scalars as texts."""


class _Values(_Once, yaml.SafeLoader):
    """Loader of scalars by YAML 1.1."""


def load_yaml(content: bytes, texts: bool = True) -> Any:
    """Parses YAML, with every scalar as a text, or with numbers, dates and flags.

    Raises:
        DataError: invalid YAML, with the line, or a repeated key.
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
        raise DataError("Expected YAML; the text has characters or a nesting that YAML does not allow.") from None


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes ambiguous texts, and escapes line breaks and other invisible characters."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if not text.isprintable() else "'" if _AMBIGUOUS.fullmatch(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)

    def represent_number(self, x: float) -> yaml.ScalarNode:
        return self.represent_int(int(x)) if x.is_integer() and abs(x) <= 2**53 else self.represent_float(x)


_Dumper.add_representer(str, _Dumper.represent_text)


class _WholeDumper(_Dumper):
    """Dumper that writes integral floats without a point."""


_WholeDumper.add_representer(float, _Dumper.represent_number)


def dump_yaml(value: object, *, flow: bool | None = False, whole: bool = False, width: int = 100) -> str:
    """Returns YAML in the order of the keys; YAML 1.1 and 1.2 read every text as a text.

    Args:
        value: lists, mappings, texts, numbers and flags.
        flow: True puts everything in brackets, False nothing, None the innermost lists.
        whole: write integral floats without a point.
        width: length of a line in characters.
    """
    how: dict[str, Any] = {"default_flow_style": flow, "sort_keys": False, "allow_unicode": True, "width": width}
    return yaml.dump(value, Dumper=_WholeDumper if whole else _Dumper, **how)
