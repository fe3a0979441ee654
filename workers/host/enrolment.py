"""Joining a control plane once, and remembering the key."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from workers.host.client import ControlPlane, Refused, Unreachable
from workers.host.devices import Device

logger = logging.getLogger(__name__)
FILE = "host.json"
RETRY_SECONDS = 1.0
VERSION = "0.1.0"


class NotEnrolled(RuntimeError):
    """This host has no key and cannot get one; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who this host is to its control plane."""

    host: str
    key: str
    server: str


def remembered(state_dir: Path, server: str) -> Membership | None:
    """The membership from an earlier run, None when there is none."""
    try:
        member = Membership(**json.loads((state_dir / FILE).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise NotEnrolled(f"{state_dir / FILE} is damaged: {error}; remove it and enrol anew") from error
    if member.server.rstrip("/") != server.rstrip("/"):
        raise NotEnrolled(f"this state directory belongs to {member.server}; take another --state-dir for {server}")
    return member


def remember(state_dir: Path, member: Membership) -> None:
    """Keep the key where only the host's owner can read it."""
    temporary = state_dir / f".{FILE}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"host": member.host, "key": member.key, "server": member.server}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(state_dir / FILE)


async def join(
    control_plane: ControlPlane,
    state_dir: Path,
    *,
    code: str | None,
    name: str,
    isolation: str,
    devices: tuple[Device, ...],
) -> Membership:
    """Return the remembered membership or enrol with a one-time code; waits for a control plane that is not up yet."""
    member = remembered(state_dir, control_plane.server)
    if member is None:
        if not code:
            raise NotEnrolled("this host is not enrolled yet: pass the one-time code with --code")
        member = await _enrol(control_plane, code=code, name=name, isolation=isolation, devices=devices)
        remember(state_dir, member)
    control_plane.authenticate(member.key)
    return member


async def _enrol(
    control_plane: ControlPlane, *, code: str, name: str, isolation: str, devices: tuple[Device, ...]
) -> Membership:
    body = {
        "code": code,
        "name": name,
        "isolation": isolation,
        "version": VERSION,
        "accelerators": [device.enrolment() for device in devices],
    }
    complained = False
    while True:
        try:
            answer = await control_plane.enrol(body)
        except Refused as error:
            raise NotEnrolled(f"the control plane refused the enrolment: {error}") from error
        except Unreachable as error:
            if not complained:
                logger.warning("waiting for the control plane: %s", error)
            complained = True
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return Membership(str(answer["host"]), str(answer["key"]), control_plane.server)
