"""Hook of the site: links of notebooks to pages lead there as they do in a checkout."""

import re


def on_page_content(html: str, page, **_) -> str:
    """Returns a notebook's page with links to pages instead of their Markdown files."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'href="\.\./([\w/-]+)\.md(#[\w-]+)?"', r'href="../../\1/\2"', html)
