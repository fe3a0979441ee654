"""A cluster clears by whichever rule the engine knows, from its book to its receipt."""

import pytest
from django.core.exceptions import ValidationError

from markets.engine.clearing import RULES
from markets.models import Clearing, Quote
from markets.selectors import receipts
from tests import scenes, soundness
from tests.invariants.lived import A10, L4
from workers.models import Cluster, Job

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_cluster_may_have_any_rule_of_the_engine_and_no_other() -> None:
    assert set(Cluster.Rule.values) == set(RULES)
    with pytest.raises(ValidationError, match="rule"):
        Cluster(slug="gemm", name="gemm", rule="a foreign one").full_clean()


def test_a_market_by_vcg_gives_the_highest_value_at_its_lowest_prices_and_its_receipt_recomputes() -> None:
    cluster = scenes.make_cluster(rule="vcg")
    host = scenes.make_host(cluster, nvidia_a10=1, nvidia_l4=1)
    alice, bob = scenes.make_tenant("alice"), scenes.make_tenant("bob")
    scenes.submit(alice, (A10, "0.9"), (L4, "0.6"), name="either")
    scenes.submit(bob, (A10, "0.8"), name="only")
    scenes.submit(bob, (A10, "0.7"), name="third")
    scenes.tick(cluster)
    host.settle()
    scenes.tick(cluster)
    seats = Job.objects.filter(leases__state="active").values_list("name", "leases__type__slug")
    assert dict(seats) == {"either": L4, "only": A10}
    prices = dict(Quote.objects.filter(during__endswith=None).values_list("type__slug", "price_per_hour"))
    assert prices[L4] == 475_500
    assert prices[A10] == 900_000 - (600_000 - 475_500)  # for less, `either` would rather have it
    clearings = Clearing.objects.order_by("number")
    assert {clearing.rule for clearing in clearings} == {"vcg"}
    assert [receipts.faults(clearing) for clearing in clearings] == [[]] * len(clearings)
    assert soundness.violations() == []
