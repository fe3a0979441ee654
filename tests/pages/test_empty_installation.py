"""The start page before there is any market."""

import pytest
from django.test import Client

from tests.pages.reading import text_of

pytestmark = pytest.mark.django_db


def test_the_start_page_of_an_empty_installation_says_what_to_do() -> None:
    text = text_of(Client().get("/"))
    assert "No cluster is open yet" in text
    assert "make demo" in text
