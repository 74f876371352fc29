"""Other processes, of this machine or of a Ray cluster, that hold shards of the records and answer with integers."""

from dpdistill.workers.remote_aggregator import RemoteAggregator, Workers

__all__ = ["RemoteAggregator", "Workers"]
