"""Renders one self-contained HTML page about a shared folder."""

from __future__ import annotations

from pathlib import Path

from dpdistill.folder.layout import REPORT
from dpdistill.publish.report import recipe, words
from dpdistill.publish.report.charts import curve
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import mapping, read_guarantee
from dpdistill.publish.report.pictures import shown_images
from dpdistill.publish.report.tables import marginals, shown_rows, unit
from dpdistill.publish.report.title import check_title, default_title, stated_title
from dpdistill.publish.templating import environment
from dpdistill.schema import TableSchema
from dpdistill.schema.public_facts import INFERRED
from dpdistill.storage.atomic import write_atomically

_PAGES = environment("dpdistill.publish.report")
_PAGES.filters |= {function.__name__: function for function in words.FILTERS}
_PAGES.globals["curve"] = curve


def write_report(folder: Path | str, title: str | None = None) -> Path:
    """Writes report.html into a shared folder: images or rows, guarantee, recipe, how to verify.

    Args:
        folder: holds certificate.json, recipe.json, synthetic.npz and, if scores are to be shown, scores.json.
        title: the publisher's title of the page; None for that of the present page, or else the classes.

    Returns:
        Path of the page: one file that loads nothing from elsewhere.

    Raises:
        DataError: a file is missing or cannot be used, or the title is refused.
    """
    path = Path(folder) / REPORT
    title = stated_title(Path(folder)) if title is None else check_title(title)
    page = render_report(read_folder(folder), title).encode()
    write_atomically(path, lambda file: file.write(page))
    return path


def render_report(folder: Folder, title: str | None = None) -> str:
    """Returns the page of a shared folder; equal contents and titles give equal text, which UTF-8 can encode."""
    schema, certificate = folder.schema, folder.certificate
    files = mapping(certificate.get("files")).items()
    if isinstance(schema, TableSchema):
        records = {"table": shown_rows(folder, schema), "marginals": marginals(folder, schema), "images": None}
    else:
        records = {"table": None, "images": shown_images(folder, schema)}
    g = read_guarantee(certificate)
    stands = unit(schema.unit) if isinstance(schema, TableSchema) else ""
    page = _PAGES.get_template("report.html").render(
        **records,
        folder=folder,
        schema=schema,
        g=g,
        title=title or default_title(folder),
        stated=title is not None,
        method=folder.recipe.get("method"),
        does=folder.recipe.get("title"),
        unit=(g.whose, "all its records") if g.name else ("row", stands),
        balanced=len({int((folder.y == k).sum()) for k in range(len(schema.classes))}) == 1,
        date=certificate.get("date"),
        scope=certificate.get("scope"),
        inferred=[] if isinstance(schema, TableSchema) else [(name, INFERRED[name].how) for name in schema.inferred],
        slack=certificate.get("slack"),
        facts=recipe.facts(folder.recipe, folder.counts),
        fields=recipe.fields(folder.recipe, isinstance(schema, TableSchema)),
        references=recipe.references(folder.recipe),
        accuracy=recipe.accuracy(folder),
        scores=None if folder.scores is None else list(recipe.scores(folder.scores)),
        files=[(name, value) for name, value in files if not name.startswith("images/")],
        pictures=[(name, value) for name, value in files if name.startswith("images/")],
        versions=mapping(certificate.get("versions")).items(),
    )
    return page.encode("utf-8", "xmlcharrefreplace").decode()
