"""YAML that people write, with every key once, and YAML that every loader reads as it was meant."""

from __future__ import annotations

import re
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


class _Dumper(yaml.SafeDumper):
    """Texts that some loader takes for a number or a truth value are quoted; invisible characters are escapes.

    PyYAML quotes by YAML 1.1, where `no` is a truth value, but 08 and 1e3 are texts; in YAML 1.2 they are numbers.
    """

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')


_NUMBER = re.compile(r"[-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$", re.ASCII)
_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


class _WholeDumper(_Dumper):
    """The same, with whole numbers without a point."""

    def represent_number(self, x: float) -> yaml.ScalarNode:
        return self.represent_int(int(x)) if x.is_integer() and abs(x) <= 2**53 else self.represent_float(x)


_WholeDumper.add_representer(float, _WholeDumper.represent_number)


def dump_yaml(value: Any, flow: bool | None = False, width: int = 100, whole: bool = False) -> str:
    """YAML of lists, mappings and values, which YAML 1.1 and 1.2 read alike: texts stay texts.

    Args:
        value: what to write.
        flow: True for all in brackets, False for nothing, None for the innermost lists and mappings.
        width: characters of a line.
        whole: write whole numbers without a point.
    """
    form = {"default_flow_style": flow, "sort_keys": False, "allow_unicode": True, "width": width}
    return yaml.dump(value, Dumper=_WholeDumper if whole else _Dumper, **form)
