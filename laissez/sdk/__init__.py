"""What a tenant's program imports: ``resume``, ``progress`` and ``checkpoint``; standard library only.

The rest of the SDK lives in its modules: ``agents`` and ``policies`` (economic agents), ``client`` (the REST API).
"""

from laissez.sdk.callbacks import progress
from laissez.sdk.checkpoints import checkpoint, resume

__all__ = ["checkpoint", "progress", "resume"]
