"""The server's only reader of a clock: market time is the database's, read once per transaction after its locks.

PostgreSQL's `now()` is the transaction's start and goes stale while a lock is awaited; `clock_timestamp()` does not.
Everything else takes the time as an argument.
"""

from datetime import UTC, datetime

from laissez.prepared import run


def now() -> datetime:
    """The database's present time, aware and in UTC. Call it after the transaction's locks are taken."""
    moment: datetime = run("SELECT clock_timestamp()")[0][0]
    return moment.astimezone(UTC)


def rfc3339(moment: datetime) -> str:
    """A time as answers and events show it: RFC 3339 in UTC, ending with Z."""
    text = moment.isoformat()
    if not text.endswith("+00:00"):
        text = moment.astimezone(UTC).isoformat()
    return f"{text[:-6]}Z"


POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""From which PostgreSQL counts the microseconds of a time, in its files and in its binary form."""


def microseconds(moment: datetime) -> int:
    """A time as whole microseconds since 1970, the unit of the engine's instants."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
