"""Where the command line keeps addresses and tokens: one TOML file of named profiles, readable by its owner alone."""

import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PROFILE = "default"


class ProfileError(Exception):
    """No server is known, or the file that should name it cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and who we are there."""

    url: str
    token: str | None

    def __repr__(self) -> str:
        return f"Profile(url={self.url!r}, token={'set' if self.token else None})"


def config_path(environment: Mapping[str, str]) -> Path:
    """`laissez/config.toml` in XDG_CONFIG_HOME, or in `.config` of the home folder."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "laissez" / "config.toml"


def read(path: Path) -> dict[str, Profile]:
    """All profiles of the file; none when it is missing. Raises ProfileError when it is damaged."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path} cannot be read ({error}); repair it or run `laissez login` again") from error
    return {
        str(name): Profile(url=str(entry["url"]), token=entry.get("token"))
        for name, entry in document.get("profiles", {}).items()
        if isinstance(entry, dict) and "url" in entry
    }


def write(path: Path, name: str, profile: Profile) -> None:
    """Adds or replaces one profile. The file is replaced whole and never readable by others, not even for a moment."""
    profiles = {**read(path), name: profile}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = "".join(f"[profiles.{_quoted(key)}]\n{_entry(value)}\n" for key, value in sorted(profiles.items()))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def choose(environment: Mapping[str, str], *, name: str | None = None, url: str | None = None) -> Profile:
    """The server to talk to: `url`, else LAISSEZ_URL, else the profile `name`, LAISSEZ_PROFILE or `default`.

    The token is LAISSEZ_TOKEN, else the profile's, which is sent to the profile's own address only.
    """
    profiles = read(config_path(environment))
    wanted = name or environment.get("LAISSEZ_PROFILE")
    if wanted and wanted not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"there is no profile {wanted!r} (known: {known}); run `laissez login --profile {wanted}`")
    stored = profiles.get(wanted or DEFAULT_PROFILE)
    address = url or (None if name else environment.get("LAISSEZ_URL")) or (stored.url if stored else None)
    if not address:
        raise ProfileError("no server is known; run `laissez login --url http://127.0.0.1:8000`, or set LAISSEZ_URL")
    own = stored.token if stored and stored.url.rstrip("/") == address.rstrip("/") else None
    return Profile(url=address, token=environment.get("LAISSEZ_TOKEN") or own)


def _entry(profile: Profile) -> str:
    token = f"token = {_quoted(profile.token)}\n" if profile.token else ""
    return f"url = {_quoted(profile.url)}\n{token}"


def _quoted(text: str) -> str:
    escaped = "".join(
        f"\\u{ord(letter):04x}" if ord(letter) < 32 or ord(letter) == 127 or letter in '"\\' else letter
        for letter in text
    )
    return f'"{escaped}"'
