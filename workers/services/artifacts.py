"""Storing what tenants upload, under its hash. The control plane never unpacks it; hosts do, inside their sandbox."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from django.conf import settings

from laissez.errors import NotFound, Refused
from tenants.models import Tenant
from workers.models import Artifact, Host, Lease

MAX_BYTES = 64 * 1024 * 1024


def store(tenant: Tenant, content: bytes) -> Artifact:
    """Keep a packed directory. The same bytes again are the same artefact.

    Raises:
        Refused: `empty_artifact`, `artifact_too_large`.
    """
    if not content:
        raise Refused("empty_artifact", "The upload is empty; send a tar archive of the job's directory.")
    if len(content) > MAX_BYTES:
        raise Refused(
            "artifact_too_large", f"The upload has {len(content)} bytes; at most {MAX_BYTES} fit.", status=413
        )
    digest = sha256(content).hexdigest()
    _write(path_of(digest), content)
    return Artifact.objects.get_or_create(tenant=tenant, sha256=digest, defaults={"size_bytes": len(content)})[0]


def path_of(digest: str) -> Path:
    """Where the bytes with this hash lie."""
    return Path(settings.ARTIFACT_DIR) / digest[:2] / digest


def for_host(host: Host, digest: str) -> Path:
    """The bytes of an artefact that a lease of this host needs; of any other there is no such thing."""
    needed = Lease.objects.filter(host=host, job__tenant__artifacts__sha256=digest).exclude(state=Lease.State.CLOSED)
    if not needed.exists() or not path_of(digest).is_file():
        raise NotFound("artefact")
    return path_of(digest)


def of_tenant(tenant: Tenant, public_id: str) -> Artifact | None:
    """A tenant's artefact by its id."""
    return Artifact.objects.filter(tenant=tenant, public_id=public_id).first()


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)
