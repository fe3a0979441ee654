"""A small server in memory that answers like the real one: the client and the command line are tried over HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "lz_live_good"
Json = dict[str, Any]


class FakeServer:
    """Jobs, artefacts and one market; `requests` keeps what was asked, `refusals` what to answer instead, once each."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Json]] = []
        self.keys: list[str | None] = []
        self.refusals: list[tuple[int, Json]] = []
        self.artifacts: dict[str, bytes] = {}
        self.jobs: dict[str, Json] = {}
        self.answers: dict[str, Json] = {}
        self.logs: list[Json] = []
        self.events: list[Json] = []
        self.states_to_come: list[str] = []
        self.url = ""

    def answer(self, method: str, target: str, body: bytes, token: str | None, key: str | None) -> tuple[int, Json]:
        """Status and JSON of one request."""
        path = urlsplit(target).path.removeprefix("/api/v1/")
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        parsed: Json = json.loads(body) if body and method != "GET" and path != "artifacts" else {}
        self.requests.append((method, path, parsed))
        self.keys.append(key)
        if self.refusals:
            return self.refusals.pop(0)
        if path == "/healthz":
            return 200, {"status": "alive"}
        if token != f"Bearer {TOKEN}":
            return 401, problem(401, "No valid token.")
        if path in PAGES:
            return 200, PAGES[path]
        if method == "POST" and key is not None and key in self.answers:
            return 201, self.answers[key]
        status, answer = self._tenant(method, path, query, parsed, body)
        if key is not None and status < 300:
            self.answers[key] = answer
        return status, answer

    def _tenant(self, method: str, path: str, query: Json, parsed: Json, body: bytes) -> tuple[int, Json]:
        match [method, *path.split("/")]:
            case ["POST", "artifacts"]:
                self.artifacts[f"art_{len(self.artifacts)}"] = body
                return 201, {"artifact": f"art_{len(self.artifacts) - 1}", "size_bytes": len(body)}
            case ["GET", "events"]:
                after = int(query.get("after", 0))
                return 200, {"items": self.events[after : after + 2], "last": len(self.events), "oldest": 1}
            case ["POST", "jobs"]:
                return self._submit(parsed, dry_run=query.get("dry_run") == "true")
            case ["GET", "jobs"]:
                return 200, {"items": list(self.jobs.values()), "next_cursor": None}
            case [_, "jobs", job, *_] if job not in self.jobs:
                return 404, problem(404, "There is no such job.")
            case ["GET", "jobs", job]:
                if self.states_to_come:
                    self.jobs[job]["state"] = self.states_to_come.pop(0)
                return 200, self.jobs[job]
            case ["GET", "jobs", job, "logs"]:
                after = int(query["after"])
                return 200, {"items": self.logs[after : after + 2], "next": min(len(self.logs), after + 2)}
            case ["PUT", "jobs", job, "bids"]:
                self.jobs[job]["rows"] = parsed["rows"]
                return 200, self.jobs[job]
            case ["POST", "jobs", job, "cancel"]:
                self.jobs[job] |= {"state": "cancelled", "explanation": "Its owner cancelled it."}
                return 200, self.jobs[job]
            case ["POST", "jobs", job, _]:
                return 200, self.jobs[job]
        return 404, problem(404, "There is no such page.")

    def _submit(self, body: Json, *, dry_run: bool) -> tuple[int, Json]:
        job = {"job": f"job_{len(self.jobs)}", "state": "queued", "explanation": EXPLANATION, **body}
        if dry_run:
            return 200, {**job, "warnings": ["the L4 row is below the price"]}
        self.jobs[str(job["job"])] = job
        return 201, job


EXPLANATION = "Waiting: every NVIDIA A10 is held by a job that pays more."
MARKET: Json = {
    "cluster": "gemm",
    "age_seconds": 0.4,
    "stale": False,
    "types": [
        {
            "accelerator_type": "nvidia-a10",
            "price_per_hour": "0.687200",
            "base_price_per_hour": "0.606000",
            "cap_price_per_hour": "2.000000",
            "units_free": 0,
            "units_total": 1,
            "waiting_awards": 1,
        }
    ],
}
POINT: Json = {
    "at": "2026-11-29T12:00:00Z",
    "price_per_hour": "0.687200",
    "lease_price_per_hour": "0.650000",
    "base_price_per_hour": "0.606000",
    "cap_price_per_hour": "2.000000",
}
GAP: Json = dict.fromkeys(POINT) | {"at": "2026-11-29T12:30:00Z"}
RECEIPT: Json = {
    "cluster": "gemm",
    "number": 42,
    "at": "2026-11-29T12:00:00Z",
    "rule": "launch_table",
    "rule_version": 1,
    "types": [{**POINT, "accelerator_type": "nvidia-a10", "set_by": "losing bid", "supply": 1, "accepted": 1}],
    "previous": 40,
    "next": None,
}
PAGES: dict[str, Json] = {
    "markets": {"items": ["gemm"]},
    "markets/gemm": MARKET,
    "markets/gemm/types/nvidia-a10/history": {"points": [POINT, GAP]},
    "markets/gemm/receipts/42": RECEIPT,
}


def problem(status: int, detail: str, *errors: Json, code: str | None = None) -> Json:
    """A problem+json body."""
    body: Json = {"type": "about:blank", "title": "Refused", "status": status, "detail": detail}
    return body | ({"errors": list(errors)} if errors else {}) | ({"code": code} if code else {})


@contextmanager
def running(server: FakeServer) -> Iterator[FakeServer]:
    """The server on a port of this machine, for the time of a test."""

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            token, key = self.headers.get("Authorization"), self.headers.get("Idempotency-Key")
            status, answer = server.answer(self.command, self.path, body, token, key)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = serve

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
