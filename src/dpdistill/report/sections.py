"""The sections around the guarantee, each a string of HTML; every text from a file is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from dpdistill.report import words
from dpdistill.report.folder import Folder
from dpdistill.report.markup import key_table, section, table
from dpdistill.report.pictures import png_uri, to_pixels
from dpdistill.schema import Schema

MAX_IMAGES = 1000
SIDE, LARGEST = 64, 96
CLASSIFIER = "classifier.npz"


def images(folder: Folder, schema: Schema, noised: bool) -> str:
    """The synthetic images, a row a class, at most MAX_IMAGES of them; noised: nothing but noised sums made them."""
    limit = max(1, MAX_IMAGES // len(schema.classes))
    height, width = schema.shape[:2]
    scale = max(1, round(SIDE / max(height, width)))
    size = min(width * scale, LARGEST)
    kind = "strip large" if width > LARGEST else "strip"
    rows, shortened = [], False
    for index, name in enumerate(schema.classes):
        X = folder.X[folder.y == index]
        shortened = shortened or len(X) > limit
        tags = "".join(
            f'<img src="{png_uri(pixels)}" width="{width}" height="{height}" alt="">'
            for pixels in to_pixels(X[:limit], schema)
        )
        count = f"{len(X)} image" + ("" if len(X) == 1 else "s")
        style = f"--size:{size}px;--phone:{max(1, min(len(X), 10))}"
        rows.append(
            f'<div class="row"><h3>{escape(name)} <small>{count}</small></h3>'
            f'<div class="{kind}" style="{style}" role="img" aria-label="{count} of {escape(name)}">{tags}</div></div>'
        )
    text = "These are all the records of the set."
    if shortened:
        text = f"The first {limit} of each class; all are in <code>synthetic.npz</code>."
    if noised:
        text += " None of them is a private record: they were computed from noised sums."
    text += classifier(folder)
    return section("The synthetic images", f'<p class="soft small">{text}</p>', "\n".join(rows))


def classifier(folder: Folder) -> str:
    """A sentence, with a space before it, about the classifier beside the records; empty where there is none."""
    if not folder.has(CLASSIFIER):
        return ""
    return (
        f" Beside them, <code>{CLASSIFIER}</code> holds a linear classifier on the features of the recipe’s kernel,"
        " computed from the same releases."
    )


def recipe(data: Mapping[str, Any], certificate: Mapping[str, Any]) -> str:
    """Method, origin, public data and every field, with its default where the recipe records it."""
    fields = data.get("fields")
    fields = fields if isinstance(fields, Mapping) else {}
    defaults, changed = data.get("defaults"), data.get("changed")
    defaults = defaults if isinstance(defaults, Mapping) else {}
    known = bool(defaults) or isinstance(changed, list)

    def differs(name: str) -> bool:
        if name in defaults:
            return defaults[name] != fields[name]
        return isinstance(changed, list) and name in changed

    def mark(name: str) -> str:
        if not differs(name):
            return '<span class="tag">default</span>'
        was = f" (default {escape(words.plain(defaults[name]))})" if name in defaults else ""
        return f'<span class="tag changed">changed{was}</span>'

    rows = [
        (f"<code>{escape(str(name))}</code>", escape(words.plain(value)), *([mark(name)] if known else []))
        for name, value in fields.items()
    ]
    facts = [
        (name, escape(words.plain(value)))
        for name, value in (
            ("Method", data.get("method")),
            ("Where the recipe comes from", data.get("origin", certificate.get("origin"))),
            ("Seed of everything public", data.get("seed", certificate.get("public_seed"))),
            ("Public data", _public(certificate.get("public_data"))),
        )
        if value is not None
    ]
    heads = ("Field", "Value", "") if known else ("Field", "Value")
    return section("The recipe", key_table(facts), "<h3>Fields</h3>" + table(heads, rows) if rows else "")


def _public(data: Any) -> str:
    if not isinstance(data, list) or not data:
        return "none"
    named = [item if isinstance(item, Mapping) else {"statement": item} for item in data]
    return "; ".join(
        f"{words.plain(item.get('statement'))} (SHA-256 {item.get('sha256', 'not stated')})" for item in named
    )


def scores(data: Any) -> str:
    """Whatever scores.json holds, as rows; marked, since no noise was added to it."""
    rows = [(escape(name), escape(value)) for name, value in _flat(data)]
    return section(
        "Scores",
        '<p class="note"><b>Not covered by ε.</b> These numbers were computed on test records without noise.</p>',
        key_table(rows) if rows else "",
    )


def _flat(data: Any, name: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(data, Mapping) and {"mean", "std"} <= set(data):
        yield name or "score", f"{words.plain(data['mean'])} ± {words.plain(data['std'])}"
        data = {key: value for key, value in data.items() if key not in ("mean", "std")}
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _flat(value, f"{name} / {key}" if name else str(key))
    elif isinstance(data, list) and any(isinstance(item, Mapping | list) for item in data):
        for k, value in enumerate(data, 1):
            yield from _flat(value, f"{name} / {k}" if name else str(k))
    else:
        yield name or "score", words.plain(data)


def verify(certificate: Mapping[str, Any], private: bool) -> str:
    """How anybody can check the numbers, and the files they are about."""
    files = certificate.get("files")
    files = files if isinstance(files, Mapping) else {}
    pictures = {name: value for name, value in files.items() if str(name).startswith("images/")}
    others = {name: value for name, value in files.items() if name not in pictures}
    hashes = _hashes(others) if others else ""
    if pictures:
        hashes += f"<details><summary>Pictures, {len(pictures)}</summary>{_hashes(pictures)}</details>"
    return section(
        "Check it yourself",
        "<p>The numbers above can be computed again from this folder alone, by another route than the one that"
        " made them:</p>"
        if private
        else "<p>There is no ε to check; the files can be compared with their hashes:</p>",
        "<pre>dpdistill verify DIR</pre>",
        '<p class="soft small">The command checks arithmetic and files. That the run was as described rests on'
        " whoever ran it: nobody can prove from a synthetic set which noise went into it.</p>",
        "<h3>Files (SHA-256)</h3>" + hashes if files else "",
    )


def _hashes(files: Mapping[str, Any]) -> str:
    rows = (
        (f"<code>{escape(str(name))}</code>", f'<span class="hash">{escape(words.plain(value))}</span>')
        for name, value in files.items()
    )
    return table(("File", "Hash"), rows)


def references(data: Mapping[str, Any]) -> str:
    """The papers of the method, as the recipe lists them."""
    listed = data.get("references")
    items = "".join(f"<li>{escape(words.plain(item))}</li>" for item in listed) if isinstance(listed, list) else ""
    return section("The papers behind the method", f"<ol>{items}</ol>") if items else ""
