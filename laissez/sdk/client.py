"""The REST client of a tenant: one method per act, answers as parsed JSON, failures as exceptions.

Every POST carries an Idempotency-Key, so that a request whose answer was lost is sent again without a second effect.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

JsonObject = dict[str, Any]

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
TRY_AGAIN = {429, 502, 503, 504}


class LaissezError(Exception):
    """Something a caller of the client has to deal with. `exit_code` is what the command line ends with."""

    exit_code = 8


class Unavailable(LaissezError):
    """The server cannot be reached or cannot answer now, after several attempts."""


class ApiError(LaissezError):
    """The server's refusal. `problem` is the problem+json (RFC 9457) as received, `status` the HTTP status."""

    def __init__(self, status: int, problem: JsonObject) -> None:
        self.status = status
        self.problem = problem
        super().__init__(_sentence(status, problem))

    @property
    def errors(self) -> list[JsonObject]:
        """The single faults: pointer, code, detail."""
        found = self.problem.get("errors")
        return [error for error in found if isinstance(error, dict)] if isinstance(found, list) else []

    @property
    def codes(self) -> set[str]:
        """Every code that the problem names."""
        return {str(error.get("code")) for error in [self.problem, *self.errors] if error.get("code")}


class BadRequest(ApiError):
    """The request itself is wrong (400, 405, 413, 415, 422)."""

    exit_code = 2


class NotAuthenticated(ApiError):
    """The token is missing, wrong, expired or lacks the scope (401, 403)."""

    exit_code = 3


class NotFound(ApiError):
    """There is no such object, or it is somebody else's (404)."""

    exit_code = 4


class Conflict(ApiError):
    """The object is in another state than the act needs (409, 412, 428)."""

    exit_code = 5


class RateLimited(ApiError):
    """Too many requests, even after waiting (429)."""

    exit_code = 6


class OutOfFunds(ApiError):
    """The balance or a budget does not cover it (402, or a code that says so)."""

    exit_code = 7


class ServerFault(ApiError):
    """The server failed (5xx)."""


KINDS: dict[int, type[ApiError]] = {
    401: NotAuthenticated,
    402: OutOfFunds,
    403: NotAuthenticated,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    428: Conflict,
    429: RateLimited,
}
FUNDS_CODES = {"insufficient_funds", "budget_spent"}


class Client:
    """A connection to one server as one tenant.

    `url`: the server's address without `/api/v1`. `token`: `lz_live_...`, or None for the public parts.
    `transport` and `pause` are for tests: what carries the requests, and what waits between attempts (seconds).
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_seconds, transport=transport)
        self._pause = pause

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def alive(self) -> None:
        """Whether the server answers at all; raises where it does not. Needs no token."""
        self._request("GET", "/healthz")

    # The market

    def clusters(self) -> list[str]:
        """The names of the clusters."""
        return list(self._pages("markets"))

    def market(self, cluster: str) -> JsonObject:
        """The exchange of one cluster: `types`, each with its prices and units, and the age of what it says."""
        return self._get(f"markets/{cluster}")

    def history(self, cluster: str, accelerator_type: str, **query: str) -> JsonObject:
        """The prices of one type over time: `points`, each in force until the next. The query takes from, to, limit."""
        return self._get(f"markets/{cluster}/types/{accelerator_type}/history", params=query)

    def price_changes(self, cluster: str, accelerator_type: str) -> JsonObject:
        """The announced base and cap prices of one type, newest first: a page of `items`."""
        return self._get(f"markets/{cluster}/types/{accelerator_type}/price-changes")

    def receipt(self, cluster: str, number: int) -> JsonObject:
        """One recorded clearing: `types` with what set each price, and its neighbours `previous` and `next`."""
        return self._get(f"markets/{cluster}/receipts/{number}")

    def events(self, stream: str, *, after: int | None = None, limit: int = 100) -> JsonObject:
        """A page of a stream's events behind `after`: items (CloudEvents), `last` and `oldest` numbers."""
        query = {"stream": stream, "limit": str(limit)} | ({} if after is None else {"after": str(after)})
        return self._get("events", params=query)

    # Jobs

    def upload(self, archive: bytes) -> JsonObject:
        """Stores a packed workload; answers artifact, sha256, size_bytes."""
        return self._post("artifacts", content=archive, headers={"Content-Type": "application/x-tar+gzip"})

    def submit(self, body: JsonObject, *, dry_run: bool = False, idempotency_key: str | None = None) -> JsonObject:
        """Submits a job. With `dry_run` the server answers with the effect and writes nothing."""
        query = {"dry_run": "true"} if dry_run else None
        return self._post("jobs", json=body, params=query, idempotency_key=idempotency_key)

    def jobs(self) -> Iterator[JsonObject]:
        """All jobs of the tenant, newest first, page by page."""
        return self._pages("jobs")

    def job(self, job: str) -> JsonObject:
        """One job: state, explanation, rows, leases, migrations, checkpoints, cost."""
        return self._get(f"jobs/{job}")

    def logs(self, job: str, *, after: int = 0) -> JsonObject:
        """Log pieces behind position `after`: items (stream, offset, text) and `next`, the position behind the last."""
        return self._get(f"jobs/{job}/logs", params={"after": str(after)})

    def cancel(self, job: str) -> JsonObject:
        """Ends the job for good, in whatever state it is."""
        return self._post(f"jobs/{job}/cancel")

    def stop(self, job: str) -> JsonObject:
        """Saves the job's state and stops it; `resume` continues it."""
        return self._post(f"jobs/{job}/stop")

    def resume(self, job: str) -> JsonObject:
        """Puts a stopped job back into the queue with its saved state."""
        return self._post(f"jobs/{job}/resume")

    def checkpoint(self, job: str) -> JsonObject:
        """Asks the running job for a checkpoint now."""
        return self._post(f"jobs/{job}/checkpoint")

    def migrate(self, job: str, *, moment: str) -> JsonObject:
        """Moves the job to what it has been awarded: `now`, or at the next `checkpoint`."""
        return self._post(f"jobs/{job}/migrate", json={"moment": moment})

    def rebid(self, job: str, rows: list[JsonObject]) -> JsonObject:
        """Replaces the launch table's prices: rows of accelerator_type, max_price_per_hour, keep_price_per_hour."""
        return self._request("PUT", f"jobs/{job}/bids", json={"rows": rows})

    def change_bids(self, rows: list[JsonObject], *, dry_run: bool = False) -> JsonObject:
        """Changes rows of launch tables of many jobs: job, accelerator_type, max_price_per_hour, keep_price_per_hour.

        Takes at most 5,000 and answers changed, unchanged, refused, and `rows` with what came of each, in their order.
        The rows of one job stand or fall together.
        """
        return self._post("bids/bulk", json={"rows": rows}, params={"dry_run": "true"} if dry_run else None)

    # Tokens

    def tokens(self) -> Iterator[JsonObject]:
        """All tokens of the tenant, newest first, page by page; never their secrets."""
        return self._pages("tokens")

    def make_token(self, name: str, *, scopes: list[str] | None = None, days: int | None = None) -> JsonObject:
        """A new token, which can do no more than this client's own. `secret` in the answer is shown this once."""
        asked = {"name": name, "scopes": scopes, "days": days}
        return self._post("tokens", json={key: value for key, value in asked.items() if value is not None})

    def revoke_token(self, token: str, *, reason: str | None = None) -> JsonObject:
        """Ends a token for ever."""
        return self._post(f"tokens/{token}/revoke", json={} if reason is None else {"reason": reason})

    def roll_token(self, token: str, *, hours: int | None = None) -> JsonObject:
        """A new token in the place of one that ends some hours later; its `secret` is shown this once."""
        return self._post(f"tokens/{token}/roll", json={} if hours is None else {"hours": hours})

    # Carrying

    def _pages(self, path: str) -> Iterator[Any]:
        """The items of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self._get(path, params={"cursor": cursor} if cursor else None)
            yield from page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> JsonObject:
        return self._request("GET", path, params=params)

    def _post(self, path: str, *, idempotency_key: str | None = None, **request: Any) -> JsonObject:
        headers = {**request.pop("headers", {}), "Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._request("POST", path, headers=headers, **request)

    def _request(self, method: str, path: str, **request: Any) -> JsonObject:
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = self._http.request(method, path if path[0] == "/" else f"/api/v1/{path}", **request)
            except httpx.TransportError as error:
                if last:
                    raise Unavailable(f"{self.url} cannot be reached: {error}") from error
                self._pause(_pause_seconds(attempt))
                continue
            if response.status_code not in TRY_AGAIN or last:
                return _answer(response)
            self._pause(_pause_seconds(attempt, response.headers.get("Retry-After")))
        raise AssertionError("the last attempt always answers or raises")


def _pause_seconds(attempt: int, retry_after: str | None = None) -> float:
    """Twice as long each time, or as long as the server asks for, within bounds."""
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_SECONDS)
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), LONGEST_PAUSE_SECONDS)


def _answer(response: httpx.Response) -> JsonObject:
    body = _json_object(response)
    if response.is_success:
        if body is None:
            raise Unavailable(
                f"{response.url} answered something that is not JSON; is this the address of a laissez server?"
            )
        return body
    problem = body or {"title": response.reason_phrase, "status": response.status_code}
    raise _kind_of(response.status_code, problem)(response.status_code, problem)


def _kind_of(status: int, problem: JsonObject) -> type[ApiError]:
    if ApiError(status, problem).codes & FUNDS_CODES:
        return OutOfFunds
    return KINDS.get(status, ServerFault if status >= 500 else BadRequest)


def _json_object(response: httpx.Response) -> JsonObject | None:
    if response.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _sentence(status: int, problem: JsonObject) -> str:
    """The problem in one paragraph: its detail, then each fault with its place, then the request id."""
    head = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
    faults = problem.get("errors")
    lines = [
        f"  {error.get('pointer') or 'request'}: {error.get('detail') or error.get('code')}"
        for error in (faults if isinstance(faults, list) else [])
        if isinstance(error, dict)
    ]
    request_id = problem.get("request_id")
    return "\n".join([head, *lines, *([f"  request {request_id}"] if request_id else [])])
