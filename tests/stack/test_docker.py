"""The image and the compose file: they parse, name the processes of `manage.py up`, and every command line works.

No Docker engine is at hand, so each command runs here as far as its configuration check, in its service's environment.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from laissez.stack import places, product
from laissez.stack.record import wait_for

pytestmark = pytest.mark.slow
DOCKER = places.PROJECT / "docker"
GIVEN = {"SECRET_KEY": "abcdefghijklmnopqrstuvwxyz" * 2, "POSTGRES_PASSWORD": "p", "HOST_CODE": "code"}
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
CELERY_CHECK = """
import sys
from celery.bin.celery import celery
top = celery.make_context("celery", sys.argv[1:])
with top:
    name, command, rest = celery.resolve_command(top, [*top._protected_args, *top.args])
    top.invoked_subcommand = name
    top.invoke(celery.callback, **top.params)
    chosen = command.make_context(name, rest, parent=top).params
app = top.obj.app
app.loader.import_default_modules()
print(name, ",".join(chosen.get("queues") or []), *sorted(app.tasks))
"""
UVICORN_CHECK = """
import sys, uvicorn
from uvicorn.main import main
chosen = main.make_context("uvicorn", sys.argv[1:]).params
config = uvicorn.Config(**{name: chosen[name] for name in ("app", "ws", "lifespan", "ws_max_size")})
config.load()
print(type(config.loaded_app).__name__, config.ws_protocol_class.__name__)
"""


def resolved(text: str) -> str:
    """The text with compose's variables filled in: given, else the default, else an error."""

    def value(match: "re.Match[str]") -> str:
        name, kind, rest = match.groups()
        if name in GIVEN:
            return GIVEN[name]
        assert kind == ":-", f"{name} is required and not among what the test gives"
        return str(rest)

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text)


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """What the process finds in its container, and nothing that the tests set."""
    ours = {name: resolved(str(value)) for name, value in service.get("environment", {}).items()}
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")} | ours


def command(name: str) -> list[str]:
    """The service's command line."""
    return [resolved(word) for word in SERVICES[name]["command"]]


def run(code: str, name: str, *, state: Path) -> str:
    """The output of a check that gets the service's arguments, in its environment."""
    done = subprocess.run(
        [sys.executable, "-c", code, *command(name)[1:]],
        cwd=places.PROJECT,
        env=environment(SERVICES[name]) | {"LAISSEZ_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_services_are_the_processes_of_up(tmp_path: Path) -> None:
    with product.listen("127.0.0.1", 0) as listener:
        specs = product.product(
            tmp_path, listener, addresses=dict.fromkeys(["DATABASE_URL", "REDIS_URL"], "x"), environment={}
        )
    assert set(OURS) == {"migrate" if spec.name == "prepare" else spec.name for spec in specs} | {"host"}
    assert set(SERVICES) - set(OURS) == {"postgres", "valkey"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) & {"celery", "celery-ticks", "beat"}))
def test_a_celery_service_is_the_supervised_process(name: str, tmp_path: Path) -> None:
    spec = product.beat(Path("/var/lib/laissez"), {}) if name == "beat" else product.celery(name, {})
    assert command(name) == ["celery", *spec.command[3:]]


def test_the_web_service_is_the_supervised_process_and_the_image_s_default() -> None:
    with product.listen("127.0.0.1", 0) as listener:
        supervised = product.web(listener, {}).command
    served = command("web")
    assert json.loads(instructions()["CMD"]) == served
    assert served[:2] == ["uvicorn", *supervised[3:4]]
    assert served[served.index("--ws") :] == list(
        supervised[supervised.index("--ws") : supervised.index("--no-access-log")]
    )


def instructions() -> dict[str, str]:
    """The Dockerfile's instructions; of repeated ones the last."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return dict(line.split(None, 1) for line in lines)


def test_the_image_installs_the_locked_packages_and_runs_as_a_user() -> None:
    found = instructions()
    assert found["FROM"].startswith("python:3.11")
    assert found["USER"] == "laissez"
    assert "--require-hashes -r requirements.lock" in (DOCKER / "Dockerfile").read_text()


def test_every_volume_and_dependency_is_declared() -> None:
    volumes = {mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    assert volumes == set(COMPOSE["volumes"])
    assert {needed for service in SERVICES.values() for needed in service.get("depends_on", {})} <= set(SERVICES)


def test_the_web_command_loads_the_application(tmp_path: Path) -> None:
    assert run(UVICORN_CHECK, "web", state=tmp_path).split()[0] == "ProxyHeadersMiddleware"


@pytest.mark.parametrize(
    ("name", "expected"), [("celery-ticks", "worker ticks"), ("celery", "worker celery"), ("beat", "beat ")]
)
def test_a_celery_command_accepts_its_options_and_knows_its_tasks(name: str, expected: str, tmp_path: Path) -> None:
    output = run(CELERY_CHECK, name, state=tmp_path)
    assert output.startswith(expected)
    assert {"markets.tasks.tick_all", "workers.tasks.reconcile"} <= set(output.split())


def test_the_settings_hold_in_production(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=places.PROJECT,
        env=environment(SERVICES["migrate"]) | {"LAISSEZ_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_production_has_no_default_for_what_is_secret_or_elsewhere(missing: str, tmp_path: Path) -> None:
    given = environment(SERVICES["web"]) | {"LAISSEZ_STATE_DIR": str(tmp_path)}
    del given[missing]
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=places.PROJECT,
        env=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert f"{missing} is not set" in done.stderr


def test_the_schema_command_exists(tmp_path: Path) -> None:
    assert command("migrate")[:2] == ["python", "manage.py"]
    done = subprocess.run(
        [sys.executable, *command("migrate")[1:], "--help"],
        cwd=places.PROJECT,
        env=environment(SERVICES["migrate"]) | {"LAISSEZ_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Bring the database schema and the collected static files up to date." in done.stdout


class Refusing(BaseHTTPRequestHandler):
    """A control plane that knows no enrolment code."""

    def do_POST(self) -> None:
        """Refuse as the real one does."""
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(
            {"title": "Refused", "status": 403, "detail": "this code is unknown", "code": "refused"}
        ).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def control_plane() -> Iterator[str]:
    """The address of one that refuses."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_host_command_gets_as_far_as_its_enrolment(control_plane: str, tmp_path: Path) -> None:
    words = command("host")
    words[words.index("--server") + 1] = control_plane
    words[words.index("--state-dir") + 1] = str(tmp_path / "host")
    words[0] = str(Path(sys.executable).with_name(words[0]))
    done = subprocess.run(
        [*words, "--trust-tenants"], env=environment(SERVICES["host"]), capture_output=True, text=True, timeout=60
    )
    assert "this code is unknown" in done.stderr
    assert done.returncode == 4


def test_the_valkey_command_starts_a_server(tmp_path: Path) -> None:
    socket_path = tmp_path / "s"
    words = [places.valkey_binary(), *command("valkey")[1:], "--port", "0", "--unixsocket", str(socket_path)]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        try:
            assert wait_for(socket_path.exists, seconds=20)
        finally:
            server.terminate()


def test_the_health_check_of_postgresql_is_a_program_of_its() -> None:
    name, *arguments = SERVICES["postgres"]["healthcheck"]["test"][1:]
    done = subprocess.run(
        [places.postgres_binary(name), *arguments, "--host", "/nowhere"], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2, "2 means that no server answered, 3 that the arguments were wrong"
