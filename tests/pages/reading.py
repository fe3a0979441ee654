"""Reading pages as a signed-in person."""

import re

from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext


def reader(username: str) -> Client:
    """A browser in which this person has signed in."""
    client = Client()
    client.force_login(User.objects.get(username=username))
    return client


def text_of(answer: HttpResponse) -> str:
    """The words of a page's content, in one line, entities as they were sent."""
    content = answer.content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", content.split("<main", 1)[1]).split())


def queries(client: Client, path: str) -> int:
    """How many queries a page takes."""
    with CaptureQueriesContext(connection) as context:
        assert client.get(path).status_code == 200
    return len(context)
