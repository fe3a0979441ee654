"""How often somebody may try something, counted in the database: a restart or an emptied cache forgets nothing."""

from datetime import timedelta
from hashlib import sha256
from typing import TypedDict

from django.db import connection

from laissez.errors import Refused
from laissez.events import Outbox
from tenants.models import Attempt


class Ration(TypedDict):
    """How many tries somebody has in how long."""

    limit: int
    per: timedelta


def admit(what: str, who: str, *, limit: int, per: timedelta, outbox: Outbox) -> None:
    """Count one more try of `who` at `what`. Call it in a transaction of its own, so that a failed try counts too.

    Raises:
        Refused: `too_many_attempts`, with status 429, when there were `limit` within `per`.
    """
    key = sha256(who.encode()).hexdigest()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"attempt {what} {key}"])
    now = outbox.now()
    Attempt.objects.filter(what=what, at__lte=now - per).delete()
    tries = Attempt.objects.filter(what=what, who=key).order_by("at")
    if len(tries) >= limit:
        minutes = max(1, round((tries[0].at + per - now).total_seconds() / 60))
        raise Refused("too_many_attempts", f"Too many tries from here. Try again in {minutes} min.", status=429)
    Attempt.objects.create(what=what, who=key, at=now)


def forgive(what: str, who: str) -> None:
    """The newest try does not count: it was a good one."""
    newest = Attempt.objects.filter(what=what, who=sha256(who.encode()).hexdigest()).order_by("-at", "-id")[:1]
    Attempt.objects.filter(pk__in=newest.values("pk")).delete()


def forget(what: str, who: str) -> None:
    """The tries are forgotten: one has succeeded."""
    Attempt.objects.filter(what=what, who=sha256(who.encode()).hexdigest()).delete()
