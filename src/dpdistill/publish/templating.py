"""Environment of the Jinja2 templates: escaping is on; all pages include templates/head.html and load nothing."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def environment(*packages: str) -> Environment:
    """Returns the templates of packages, in order of preference, and the templates that all pages share."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "dpdistill")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.policies["truncate.leeway"] = 0
    return pages
