"""What the processes of a stack of one's own are told that lives in a folder and is gone with it."""

import secrets
from pathlib import Path

from laissez.stack import servers


def production(state: Path) -> dict[str, str]:
    """The environment of production for the servers of a state folder, whether they run yet or not."""
    (state / "static").mkdir(exist_ok=True)
    return {
        **servers.urls(state),
        "DJANGO_SETTINGS_MODULE": "laissez.settings",
        "LAISSEZ_ENV": "production",
        "LAISSEZ_STATE_DIR": str(state),
        "LAISSEZ_LOG_LEVEL": "WARNING",
        "SECRET_KEY": secrets.token_urlsafe(48),
        "ALLOWED_HOSTS": "127.0.0.1,localhost",
    }
