"""Files given to the form become artefacts at once, so that a form which is refused keeps them.

A tar archive is stored as it came, single files are packed as the command line packs a directory. An artefact that no
job names costs nothing and is seen by nobody but its tenant.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.core.files.uploadedfile import UploadedFile
from django.utils.datastructures import MultiValueDict

from laissez.errors import Fault, Refused
from laissez.sdk.archive import pack_files
from markets.views.job_draft import Draft
from tenants.models import Tenant
from workers.services import artifacts

ARCHIVES = (".tar", ".tar.gz", ".tgz")
GZIP_MAGIC = b"\x1f\x8b"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257


def take(tenant: Tenant, draft: Draft, files: "MultiValueDict[str, UploadedFile]") -> tuple[Draft, list[Fault]]:
    """Store what came with a form; the draft that names it, and what was wrong with the rest."""
    faults: list[Fault] = []
    given = _stored(tenant, files.getlist("upload"), "/artifact", faults)
    values = {**draft.values, **given} if given else draft.values
    rows = [
        {**row, **_stored(tenant, files.getlist(f"rows-{place}-upload"), f"/rows/{place}/artifact", faults)}
        for place, row in enumerate(draft.rows)
    ]
    return replace(draft, values=values, rows=rows), faults


def _stored(tenant: Tenant, files: Sequence[UploadedFile], at: str, faults: list[Fault]) -> dict[str, str]:
    if not files:
        return {}
    try:
        artifact = artifacts.store(tenant, _archive(files))
    except Refused as refusal:
        faults.append(Fault(refusal.code, refusal.detail, at))
        return {}
    names = [file.name or "" for file in files]
    shown = names[0] if len(names) == 1 else f"{len(names)} files: {', '.join(names)}"
    return {"artifact": artifact.public_id, "artifact-name": shown[:200]}


def _archive(files: Sequence[UploadedFile]) -> bytes:
    """One tar archive as it is, anything else packed."""
    total = sum(file.size or 0 for file in files)
    if total > artifacts.MAX_BYTES:
        detail = f"These are {total} bytes; at most {artifacts.MAX_BYTES} fit."
        raise Refused("artifact_too_large", detail, status=413)
    contents = {file.name or "": file.read() for file in files}
    if len(contents) < len(files) or not all(map(_is_usable, contents)):
        raise Refused(
            "bad_file_name", "Two of these files have the same name, or one has a name that cannot be packed."
        )
    (name, content) = next(iter(contents.items()))
    if len(files) > 1 or not name.endswith(ARCHIVES):
        return pack_files(contents)
    if content and not _is_archive(content):
        raise Refused(
            "bad_archive", f"{name[:80]!r} is not a tar archive; pack it again, or give the files themselves."
        )
    return content


def _is_usable(name: str) -> bool:
    return name not in ("", ".", "..") and name.isprintable() and "/" not in name and "\\" not in name


def _is_archive(content: bytes) -> bool:
    return content.startswith(GZIP_MAGIC) or content[TAR_MAGIC_AT:].startswith(TAR_MAGIC)
