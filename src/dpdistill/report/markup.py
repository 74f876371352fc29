"""Cards and tables as strings of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def section(title: str, *parts: str) -> str:
    """A card with a heading; title is plain text, the parts are HTML."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def key_table(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, both HTML."""
    body = "\n".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return f'<table class="key"><tbody>\n{body}\n</tbody></table>'


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with a head row; all of it HTML."""
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
