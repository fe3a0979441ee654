"""One effect per key: a request's key is stored in the transaction of its effect, together with the answer.

The key is written first, so a second request with it waits for the first to end: it then either finds the answer, or
finds nothing, because the first was undone, and does the work itself.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from laissez.errors import Refused
from laissez.events import Outbox, transact
from laissez.prepared import run
from tenants.models import IdempotencyKey, Tenant

MAX_KEY_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered; `replayed` when the effect took place at an earlier request."""

    status: int
    body: Any
    replayed: bool


def once(tenant: Tenant, *, key: str, fingerprint: str, status: int, work: Callable[[Outbox], Any]) -> Answer:
    """Run `work` in a transaction unless this tenant's key has been answered before; then answer the same again.

    `fingerprint` stands for the request's place and body: the same key with another one is refused. `work` returns the
    JSON body to answer with `status`; what it raises undoes the key too.
    """
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise Refused(
            "bad_idempotency_key", f"Idempotency-Key is not 1 to {MAX_KEY_LENGTH} printable ASCII characters."
        )

    def act(outbox: Outbox) -> Answer:
        if not _claim(tenant, key, fingerprint):
            return _replay(tenant, key, fingerprint)
        body = work(outbox)
        _keep(tenant, key, status, body, outbox)
        return Answer(status, body, replayed=False)

    return transact(act)


def _claim(tenant: Tenant, key: str, fingerprint: str) -> bool:
    """Write the key; waits for another transaction that has just written it. Whether it is this one's."""
    written = run(
        "INSERT INTO tenants_idempotencykey (tenant_id, key, fingerprint) VALUES (%s, %s, %s)"
        " ON CONFLICT (tenant_id, key) DO NOTHING RETURNING true",
        [tenant.pk, key, fingerprint],
    )
    return bool(written)


def _keep(tenant: Tenant, key: str, status: int, body: Any, outbox: Outbox) -> None:
    run(
        "UPDATE tenants_idempotencykey SET status = %s, body = %s::jsonb, answered_at = %s"
        " WHERE tenant_id = %s AND key = %s",
        [status, json.dumps(body), outbox.now(), tenant.pk, key],
    )


def _replay(tenant: Tenant, key: str, fingerprint: str) -> Answer:
    earlier = IdempotencyKey.objects.get(tenant=tenant, key=key)
    if earlier.fingerprint != fingerprint or earlier.status is None:
        raise Refused("idempotency_key_reused", "This Idempotency-Key was sent with another request.", status=422)
    return Answer(earlier.status, earlier.body, replayed=True)
