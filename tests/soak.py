"""The feed under load: subscribers over real websockets, killed and resumed at random, must lose nothing.

    python -m tests.soak [--subscribers 50] [--seconds 120] [--rate 200] [--seed 7]

Starts its own PostgreSQL, Valkey and web process in a folder that is gone afterwards. Prints one line of JSON; the
exit code is 1 when an event was lost, came twice or out of order.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from laissez.stack import product, servers

PROJECT = Path(__file__).resolve().parents[1]
INSIDE = "import django, sys; django.setup(); from tests.soaking import main; sys.exit(main(sys.argv[1:]))"
"""What runs with Django set up, against the servers of its environment."""
END_SECONDS = 10


def main() -> int:
    """The command line above."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="laissez-soak-", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        (state / "static").mkdir()
        with servers.running(state, purpose="soak", durable=False) as addresses:
            environment = {**os.environ, **addresses, "LAISSEZ_ENV": "test", "LAISSEZ_STATE_DIR": folder}
            environment["DJANGO_SETTINGS_MODULE"] = "laissez.settings"
            migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(migrate, env=environment, cwd=PROJECT, check=True)
            with _web(environment) as url:
                figures = (options.subscribers, options.seconds, options.rate, options.seed)
                inner = [sys.executable, "-c", INSIDE, url, *map(str, figures)]
                return subprocess.run(inner, env=environment, cwd=PROJECT).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subscribers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


@contextmanager
def _web(environment: dict[str, str]) -> Iterator[str]:
    """The web process as the product runs it. Yields the address of its socket for programs."""
    with closing(product.listen("127.0.0.1", 0)) as listener:
        spec = product.web(listener, {**environment, "LAISSEZ_LOG_LEVEL": "WARNING"})
        child = subprocess.Popen(spec.command, env=dict(spec.environment), cwd=PROJECT, pass_fds=spec.inherited)
        try:
            yield product.web_address(listener).replace("http:", "ws:") + "/api/v1/feed"
        finally:
            child.terminate()
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


if __name__ == "__main__":
    sys.exit(main())
