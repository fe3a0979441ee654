"""Whether the database is sound: every detector of every app, and pictures of tables to compare before and after."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from django.db import connection

from laissez import invariants
from laissez.invariants import Detector, Inspection

APPS = ("laissez", "tenants", "workers", "markets")
PLANNED: WeakSet[Any] = WeakSet()
"""The connections that know the detectors' queries by name."""


def violations() -> list[str]:
    """One sentence per violated invariant; empty when all is well."""
    detectors = _detectors()
    queries = [detector for detector in detectors if isinstance(detector, Detector)]
    suspects = detectors if _finds_anything(queries) else [one for one in detectors if one not in queries]
    return invariants.violations(suspects)


def _finds_anything(queries: list[Detector]) -> bool:
    """Whether any query returns a row. Most of their time is planning, which a connection does only once."""
    connection.ensure_connection()
    with connection.cursor() as cursor:
        if connection.connection not in PLANNED:
            cursor.execute(";".join(f"PREPARE sound_{number} AS {one.sql}" for number, one in enumerate(queries)))
            PLANNED.add(connection.connection)
        cursor.execute(";".join(f"EXECUTE sound_{number}" for number in range(len(queries))))
        found = cursor.rowcount > 0
        while cursor.nextset():
            found = found or cursor.rowcount > 0
        return found


@cache
def _detectors() -> list[Detector | Inspection]:
    """Those of all apps."""
    modules = [import_module(f"{app}.invariants") for app in APPS if find_spec(f"{app}.invariants") is not None]
    return [detector for module in modules for detector in module.detectors()]


def contents(*, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """A digest of every table's rows by its name. When a token was last used is no part of it."""
    with connection.cursor() as cursor:
        names = sorted(set(connection.introspection.table_names(cursor)) - without - {"tenants_apitoken"})
        parts = [
            f"SELECT '{name}', coalesce(md5(string_agg(row::text, '|' ORDER BY row::text)), '') FROM {name} AS row"
            for name in names
        ]
        cursor.execute(" UNION ALL ".join(parts))
        return dict(cursor.fetchall())


def changed(before: dict[str, str]) -> set[str]:
    """The tables whose rows are no longer what they were."""
    after = contents(without=frozenset({"tenants_apitoken"}))
    return {name for name, digest in before.items() if after[name] != digest}
