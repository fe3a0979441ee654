"""Whether the database is sound: every detector of every app, and pictures of tables to compare before and after."""

from importlib import import_module
from importlib.util import find_spec

from django.db import connection

from laissez import invariants

APPS = ("laissez", "tenants", "workers", "markets")


def violations() -> list[str]:
    """One sentence per violated invariant; empty when all is well."""
    modules = [import_module(f"{app}.invariants") for app in APPS if find_spec(f"{app}.invariants") is not None]
    return [sentence for module in modules for sentence in invariants.violations(module.detectors())]


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
