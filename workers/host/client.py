"""The host's calls to the control plane; nothing else of the host speaks HTTP."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

TIMEOUT_SECONDS = 15.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Refused(RuntimeError):
    """The control plane answered no; `code` is its word for why."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail or code or 'refused'} ({status})")
        self.status, self.code, self.detail = status, code, detail


class Unreachable(ConnectionError):
    """The control plane could not be reached, or is in trouble; trying again may help."""


class ControlPlane:
    """One host's connection to its control plane."""

    def __init__(self, server: str, key: str = "") -> None:
        self.server = server.rstrip("/") + "/"
        self._key = key
        self.direct = urlsplit(self.server).hostname in LOOPBACK  # no proxy stands between
        self._http = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=not self.direct)

    def authenticate(self, key: str) -> None:
        """Use the host's own key from now on."""
        self._key = key

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    @property
    def doorbell(self) -> str:
        """The address of the websocket that rings."""
        parts = urlsplit(urljoin(self.server, "ws/host"))
        return urlunsplit(parts._replace(scheme={"http": "ws", "https": "wss"}[parts.scheme]))

    def headers(self) -> dict[str, str]:
        """What proves who this host is."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    async def enrol(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Join with a one-time code; the answer holds the key."""
        return await self._call("POST", "enrol", body)

    async def sync(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Say what is, hear what should be."""
        return await self._call("POST", "sync", body)

    async def context(self, lease: str, fence: int) -> dict[str, Any]:
        """What the lease's economic agent should know."""
        return await self._call("GET", f"leases/{lease}/context?fence={fence}", None)

    async def decide(self, lease: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Hand in what the agent decided."""
        return await self._call("POST", f"leases/{lease}/decision", body)

    async def download(self, url: str, target: Path, *, most_bytes: int) -> None:
        """Fetch an artifact into `target`, whole or not at all; the key goes to the control plane only."""
        address = urljoin(self.server, url)
        own = urlsplit(address).netloc == urlsplit(self.server).netloc
        descriptor, temporary = tempfile.mkstemp(dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                await self._stream(address, self.headers() if own else {}, file, most_bytes)
            os.chmod(temporary, 0o644)
            os.rename(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

    async def _stream(self, address: str, headers: dict[str, str], file: Any, most_bytes: int) -> None:
        try:
            async with self._http.stream("GET", address, headers=headers) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise _refusal(answer)
                size = 0
                async for chunk in answer.aiter_raw():
                    size += len(chunk)
                    if size > most_bytes:
                        raise Refused(200, "too_large", f"the download is larger than {most_bytes} bytes")
                    file.write(chunk)
        except httpx.HTTPError as error:
            raise Unreachable(f"{address}: {error!r}") from error

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        address = urljoin(self.server, f"api/v1/host/{path}")
        try:
            answer = await self._http.request(method, address, json=body, headers=self.headers())
        except httpx.HTTPError as error:
            raise Unreachable(f"{address}: {error!r}") from error
        if not answer.is_success:
            raise _refusal(answer)
        try:
            value: dict[str, Any] = answer.json()
        except ValueError as error:
            raise Unreachable(f"{address} answered with something that is no JSON") from error
        return value


def _refusal(answer: httpx.Response) -> Refused | Unreachable:
    """A client error is a refusal; anything else is the other side's trouble and may pass."""
    if not 400 <= answer.status_code < 500 or answer.status_code in (408, 425, 429):
        return Unreachable(f"{answer.request.url} answered {answer.status_code}")
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    errors = problem.get("errors") or [{}]
    code = str(problem.get("code") or errors[0].get("code") or "")
    detail = str(problem.get("detail") or problem.get("title") or "")
    return Refused(answer.status_code, code, detail)
