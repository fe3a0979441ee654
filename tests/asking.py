"""Asking the API over HTTP, as a tenant with a token or as a host with its key."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from tenants.models import Tenant
from tests.scenes import FakeHost
from tests.tenancy import a_token, bearer


@dataclass
class Asker:
    """Somebody with credentials. A refused request raises nothing: the answer is what a test looks at."""

    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """Read."""
        return Client().get(path, headers=self.headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Send JSON, or text as it is."""
        return self.send("POST", path, body, **headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send JSON, or text as it is, with more headers: `Idempotency_Key="k"`."""
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return Client(raise_request_exception=False).generic(
            method, path, text, more.pop("Content-Type", "application/json"), headers=self.headers | more
        )


def as_tenant(tenant: Tenant, *scopes: str) -> Asker:
    """With a fresh token of the tenant."""
    return Asker(bearer(a_token(tenant, *scopes)[1]))


def as_host(host: FakeHost) -> Asker:
    """With the host's key."""
    return Asker(bearer(host.key))


def faults(response: Any) -> list[tuple[str, str]]:
    """The code and pointer of every fault of a problem, after a look at its form."""
    assert response["Content-Type"] == "application/problem+json", response.content
    body = response.json()
    assert {"type", "title", "status", "detail", "errors"} <= body.keys()
    assert body["status"] == response.status_code
    assert all(fault["detail"] for fault in body["errors"])
    return [(fault["code"], fault["pointer"]) for fault in body["errors"]]
