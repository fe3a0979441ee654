"""Tests here commit, and end with empty tables. Markets stand for a whole module, whose tests undo what they do."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from pytest_django.plugin import DjangoDbBlocker

from tests.flushing import flush_past_triggers
from tests.invariants.lived import Market

__all__ = ["flush_past_triggers"]


@pytest.fixture(scope="module")
def lived(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Market]:
    """A market that has lived."""
    with django_db_blocker.unblock():
        yield Market().live()
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def young(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Market]:
    """A market that has only begun: `mover` and `steady` have run for two minutes and are billed for them."""
    with django_db_blocker.unblock():
        market = Market()
        market.begin()
        market.elapse()
        market.turn()
        yield market
        call_command("flush", interactive=False, verbosity=0)
