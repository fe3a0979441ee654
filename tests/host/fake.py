"""A control plane in memory: the host protocol over threaded HTTP, with a doorbell, for tests of the host alone."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import socket
import tarfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CODE = "enrol-once"
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
WAIT_SECONDS = 20.0


class FakeControlPlane:
    """Keeps what hosts say and tells them what the test wants."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.changed = threading.Condition()
        self.keys: dict[str, str] = {}
        self.enrolments: list[dict[str, Any]] = []
        self.desired: dict[str, dict[str, Any]] = {}
        self.states: dict[str, list[str]] = {}
        self.reports: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.artifacts: dict[str, bytes] = {}
        self.context: dict[str, Any] = {}
        self.answer_checkpoint: Callable[[dict[str, Any]], dict[str, Any]] = lambda report: {
            "accepted": True,
            "then": "continue",
        }
        self.on_report: Callable[[dict[str, Any]], None] = lambda report: None
        self.ttl_seconds = 10.0
        self.heartbeat_seconds = 0.5
        self.away = False
        self.last_sequence = 0
        self.syncs = 0
        self._acknowledged: dict[str, int] = {}
        self._results: dict[str, Any] = {}
        self._bells: list[socket.socket] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"plane": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for bell in self._bells:
            bell.close()

    # ---- what tests do

    def want(self, lease: str, **fields: Any) -> None:
        """Create or change a desired lease, and ring."""
        with self.changed:
            entry = self.desired.setdefault(lease, {"lease": lease})
            entry.update(fields)
            self.changed.notify_all()
        self.ring()

    def drop(self, lease: str) -> None:
        with self.changed:
            self.desired.pop(lease, None)
        self.ring()

    def ring(self) -> None:
        for bell in list(self._bells):
            try:
                bell.sendall(b"\x81\x04ring")
            except OSError:
                self._bells.remove(bell)

    def add_artifact(self, files: dict[str, str]) -> dict[str, Any]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        return self.add_archive(buffer.getvalue())

    def add_archive(self, data: bytes) -> dict[str, Any]:
        sha256 = hashlib.sha256(data).hexdigest()
        self.artifacts[sha256] = data
        return {"url": f"/api/v1/host/artifacts/{sha256}", "sha256": sha256, "size_bytes": len(data)}

    def wait(self, condition: Callable[[], Any], what: str = "", seconds: float = WAIT_SECONDS) -> Any:
        """Wait until the condition holds and return its value; fail with everything that was heard."""
        with self.changed:
            found = self.changed.wait_for(condition, seconds)
        last = {lease: states[-1] for lease, states in list(self.states.items())[-3:]}
        assert found, f"waited {seconds} s for {what}; states {last}; reports {self.reports[-3:]}"
        return found

    def said(self, lease: str, kind: str) -> list[dict[str, Any]]:
        return [report for report in self.reports if report["lease"] == lease and report["kind"] == kind]

    def wait_report(self, lease: str, kind: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        report: dict[str, Any] = self.wait(lambda: self.said(lease, kind), f"{kind} of {lease}", seconds)[-1]
        return report

    def wait_state(self, lease: str, state: str, seconds: float = WAIT_SECONDS) -> None:
        self.wait(lambda: state in self.states.get(lease, []), f"{lease} to be {state}", seconds)

    def text(self, lease: str, stream: str | None = None) -> str:
        logs = [report for report in self.said(lease, "log") if stream in (None, report["stream"])]
        return "".join(report["text"] for report in logs)

    # ---- what hosts call

    def enrol(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body.get("code") != CODE or self.keys:
            return 403, {"title": "Refused", "status": 403, "code": "bad_code", "detail": "this code is not valid"}
        self.keys["host_1"] = "lz_host_secret"
        self.enrolments.append(body)
        return 201, {"host": "host_1", "key": "lz_host_secret", "state": "ready"}

    def sync(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.syncs += 1
            if body["sequence"] <= self.last_sequence:
                return 409, {"title": "Replayed", "status": 409, "code": "replayed_message", "detail": "heard already"}
            self.last_sequence = body["sequence"]
            for lease in body["leases"]:
                seen = self.states.setdefault(lease["lease"], [])
                if not seen or seen[-1] != lease["state"]:
                    seen.append(lease["state"])
            results, refused = self._take(body["reports"])
            leases = [self._defaults(entry) for entry in self.desired.values()]
            self.changed.notify_all()
            return 200, {
                "host": {"id": "host_1", "state": "ready"},
                "lease_ttl_seconds": self.ttl_seconds,
                "heartbeat_seconds": self.heartbeat_seconds,
                "acknowledged": self._acknowledged.get("host_1", 0),
                "refused": refused,
                "results": results,
                "checkpoint_store": self.store.as_uri(),
                "leases": leases,
            }

    def _take(self, reports: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        results, refused = {}, []
        for report in reports:
            number = str(report["id"])
            if report["id"] <= self._acknowledged.get("host_1", 0):
                if number in self._results:
                    results[number] = self._results[number]
                continue
            self._acknowledged["host_1"] = report["id"]
            wanted = self.desired.get(report["lease"])
            if wanted is not None and report["fence"] != wanted["fence"]:
                refused.append({"id": report["id"], "code": "stale_fence", "detail": "an old fence"})
                self.refusals.append(report)
                continue
            self.reports.append(report)
            self.on_report(report)
            if report["kind"] == "checkpoint":
                results[number] = self._results[number] = self.answer_checkpoint(report)
        return results, refused

    @staticmethod
    def _defaults(entry: dict[str, Any]) -> dict[str, Any]:
        return {
            "job": f"job_{entry['lease']}",
            "index": 0,
            "accelerator_type": "nvidia-a10",
            "desired": "run",
            "grace_seconds": 5,
            "deadline_seconds": None,
            "ask": 0,
            "cause": "heartbeat",
            "resume": {"state": "none"},
            "artifact": None,
            "expected_hours": None,
            **entry,
        }

    def decide(self, lease: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.decisions.append({"lease": lease, **body})
            self.changed.notify_all()
        return 200, {"applied": True, "detail": ""}

    def hang_on(self, bell: socket.socket) -> None:
        self._bells.append(bell)


class Handler(BaseHTTPRequestHandler):
    """One connection of a host; its class attribute is the control plane that it speaks for."""

    protocol_version = "HTTP/1.1"
    plane: FakeControlPlane

    def log_message(self, *arguments: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # hosts get killed
            super().handle()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.plane.away:
            self._answer(503, {"title": "away"})
        elif self.path == "/api/v1/host/enrol":
            self._answer(*self.plane.enrol(body))
        elif not self._known():
            self._answer(401, {"title": "Unknown key", "status": 401, "detail": "no host has this key"})
        elif self.path == "/api/v1/host/sync":
            self._answer(*self.plane.sync(body))
        else:
            self._answer(*self.plane.decide(self.path.split("/")[-2], body))

    def do_GET(self) -> None:
        if self.path == "/ws/host":
            self._hang_bell()
        elif not self._known() or self.plane.away:
            self._answer(503 if self.plane.away else 401, {"title": "no"})
        elif "/artifacts/" not in self.path:
            self._answer(200, self.plane.context)
        elif (data := self.plane.artifacts.get(self.path.rpartition("/")[2])) is None:
            self._answer(404, {"title": "Not found", "status": 404, "detail": "no such artifact"})
        else:
            self._send(200, data, "application/x-tar")

    def _known(self) -> bool:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") in self.plane.keys.values()

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _hang_bell(self) -> None:
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + WEBSOCKET).digest())
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept.decode())
        self.end_headers()
        self.plane.hang_on(self.connection)
        while (frame := self.connection.recv(4096)) and frame[0] != 0x88:
            pass
        self.connection.sendall(b"\x88\x00")
        self.close_connection = True
