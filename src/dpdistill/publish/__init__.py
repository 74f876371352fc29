"""Outputs made from a shared folder: report page, charts, catalogue documents, third-party formats."""
