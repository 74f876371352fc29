"""Out of the door: documents and formats of other people's standards, made of a shared folder's public facts."""

from dpdistill.publish.export.documents import DOCUMENTS, renew_documents, write_documents
from dpdistill.publish.export.formats import FORMATS, export
from dpdistill.publish.export.publisher import Publisher

__all__ = ["DOCUMENTS", "FORMATS", "Publisher", "export", "renew_documents", "write_documents"]
