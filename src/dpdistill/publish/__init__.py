"""Outputs: the page, charts, documents for catalogues, formats of others."""
