"""`among` finds what `in` finds, in one parameter."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import scenes
from workers.models import Accelerator, Host

pytestmark = pytest.mark.django_db


def test_the_rows_are_those_of_the_values() -> None:
    host = scenes.make_host(scenes.make_cluster(), nvidia_a10=3).host
    first, second, third = Accelerator.objects.filter(host=host).order_by("pk").values_list("pk", flat=True)
    found = Accelerator.objects.filter(pk__among={first, third, third + 1000})
    assert set(found.values_list("pk", flat=True)) == {first, third}
    assert set(Accelerator.objects.exclude(pk__among=[first]).values_list("pk", flat=True)) == {second, third}
    assert not Accelerator.objects.filter(pk__among=[]).exists()


def test_foreign_keys_and_texts_have_it_too() -> None:
    host = scenes.make_host(scenes.make_cluster(), nvidia_a10=2).host
    assert Accelerator.objects.filter(host_id__among=[host.pk]).count() == 2
    assert Accelerator.objects.filter(host__cluster__slug__among=[host.cluster.slug, "nowhere"]).count() == 2
    assert Host.objects.filter(public_id__among=(host.public_id,)).get() == host


def test_a_value_is_never_part_of_the_statement() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert not Host.objects.filter(public_id__among=["'; DROP TABLE workers_host; --"]).exists()
    assert len(queries) == 1
