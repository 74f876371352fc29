"""Other processes, of this machine or of a Ray cluster, that hold shards of the records and answer with integers."""

from dpdistill.workers.remote_aggregator import Pool, Workers

__all__ = ["Pool", "Workers"]
