"""Files and arrays to Records and Schema; a synthetic set to files."""

from dpdistill.folder.save import check_output, read_distilled, write_distilled
from dpdistill.sources.load import load
from dpdistill.storage.records import Records
from dpdistill.storage.straighten import straighten_images

__all__ = ["Records", "check_output", "load", "read_distilled", "straighten_images", "write_distilled"]
