"""Pages are Jinja2 templates, with escaping on; all of them begin with templates/head.html and load nothing."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def environment(*packages: str) -> Environment:
    """The templates of packages, the first that has one, and those that all pages share."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "dpdistill")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["truncate.leeway"] = 0
    return made
