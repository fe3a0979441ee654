"""Tests here commit, and end with empty tables. Markets stand for a whole module, whose tests undo what they do."""

from collections.abc import Iterator

import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests.flushing import flush_past_triggers, standing
from tests.invariants.lived import Market

__all__ = ["flush_past_triggers"]


@pytest.fixture(scope="module")
def lived(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Market]:
    """A market that has lived."""
    with standing(django_db_blocker):
        yield Market().live()


@pytest.fixture(scope="module")
def young(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Market]:
    """A market that has only begun: `mover` and `steady` have run for two minutes and are billed for them."""
    with standing(django_db_blocker):
        market = Market()
        market.begin()
        market.elapse()
        market.turn()
        yield market
