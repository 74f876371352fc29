"""Exports of a shared folder: documents and third-party formats, made from public facts only."""

from dpdistill.publish.export.documents import DOCUMENTS, renew_documents, write_documents
from dpdistill.publish.export.formats import FORMATS, export
from dpdistill.publish.export.publisher import Publisher

__all__ = ["DOCUMENTS", "FORMATS", "Publisher", "export", "renew_documents", "write_documents"]
