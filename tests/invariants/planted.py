"""What planting a violation takes: SQL for the rows of a lived market, and a look at it with the rows in the ground."""

from django.apps import apps
from django.db import transaction

from tests import soundness
from tests.planting import plant

LONG_AGO = "now() - interval '1 hour'"
LISTENING = "UPDATE workers_ear SET listening_since = now() - interval '1 day'"


def see_planted(*statements: str) -> list[str]:
    """What the detectors see once these statements have been run past every trigger. Nothing of it stays."""
    with transaction.atomic():
        plant(*statements)
        found = soundness.violations()
        transaction.set_rollback(True)
    return found


def job(name: str) -> str:
    """SQL for the id of a job."""
    return f"(SELECT id FROM workers_job WHERE name = '{name}')"


def kind(slug: str) -> str:
    """SQL for the id of an accelerator type."""
    return f"(SELECT id FROM workers_acceleratortype WHERE slug = '{slug}')"


def lease(name: str, slug: str) -> str:
    """SQL for the id of the lease that a job has, or had, of a type."""
    return f"(SELECT id FROM workers_lease WHERE job_id = {job(name)} AND type_id = {kind(slug)})"


def unit(name: str, slug: str) -> str:
    """SQL for the id of the accelerator that this lease occupies, or did."""
    return f"(SELECT accelerator_id FROM workers_lease WHERE id = {lease(name, slug)})"


def change_lease(name: str, slug: str, changes: str) -> str:
    """A statement that changes that lease."""
    return f"UPDATE workers_lease SET {changes} WHERE id = {lease(name, slug)}"


def change_job(name: str, changes: str) -> str:
    """A statement that changes a job."""
    return f"UPDATE workers_job SET {changes} WHERE name = '{name}'"


def change_of(table: str, name: str, changes: str) -> str:
    """A statement that changes a job's rows of a table."""
    return f"UPDATE {table} SET {changes} WHERE job_id = {job(name)}"


def change_slice(name: str, slug: str, changes: str) -> str:
    """A statement that changes the first slice of a lease."""
    first = f"(SELECT min(id) FROM markets_billingslice WHERE lease_id = {lease(name, slug)})"
    return f"UPDATE markets_billingslice SET {changes} WHERE id = {first}"


def copy(table: str, original: str, **changes: str) -> str:
    """A statement that adds a copy of the row with that id to a table; the changes are SQL values."""
    pairs = ", ".join(f"'{column}', {value}" for column, value in {"id": "1000000", **changes}.items())
    columns = ", ".join(_written(table))
    return (
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM ("
        f" SELECT (jsonb_populate_record(original, jsonb_build_object({pairs}))).*"
        f" FROM {table} AS original WHERE id = {original}) AS made"
    )


def _written(table: str) -> list[str]:
    """The columns of a table but for those that the database generates."""
    (model,) = (model for model in apps.get_models() if model._meta.db_table == table)
    return [str(field.column) for field in model._meta.concrete_fields if not field.generated]


def without(table: str, *constraints: str) -> list[str]:
    """Statements that take constraints off a table."""
    return [f"ALTER TABLE {table} DROP CONSTRAINT {constraint}" for constraint in constraints]
