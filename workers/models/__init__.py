"""Rows of the execution half: where accelerators are, what runs on them, and how it moves.

The rows are the truth. `floor` holds what the operator owns, `jobs` what tenants want run, `leases` who sits where.
"""

from workers.models.floor import Accelerator, AcceleratorType, Cluster, Ear, EnrolmentCode, Host
from workers.models.jobs import Artifact, Job, LogChunk, ProgressSample
from workers.models.leases import Checkpoint, Lease, Migration

__all__ = [
    "Accelerator",
    "AcceleratorType",
    "Artifact",
    "Checkpoint",
    "Cluster",
    "Ear",
    "EnrolmentCode",
    "Host",
    "Job",
    "Lease",
    "LogChunk",
    "Migration",
    "ProgressSample",
]
