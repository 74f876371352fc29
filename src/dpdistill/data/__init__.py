"""Files and arrays to Records and Schema; a synthetic set to files."""

from dpdistill.data.images.straighten import straighten_images
from dpdistill.data.load import load
from dpdistill.data.records import Records
from dpdistill.data.save import check_output, read_distilled, write_distilled

__all__ = ["Records", "check_output", "load", "read_distilled", "straighten_images", "write_distilled"]
