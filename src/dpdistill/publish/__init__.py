"""What goes out: the page, charts, documents for catalogues, formats of others."""
