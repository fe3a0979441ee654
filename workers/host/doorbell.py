"""The websocket on which the control plane rings. Losing a ring costs latency only: the host polls as well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from workers.host.client import ControlPlane

logger = logging.getLogger(__name__)
FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 10.0
CLOSE_SECONDS = 1.0


async def listen(control_plane: ControlPlane, ring: Callable[[], None]) -> None:
    """Call `ring` for every text frame, for ever; connect again with growing pauses."""
    pause = FIRST_RETRY_SECONDS
    while True:
        try:
            async with _connect(control_plane) as socket:
                pause = FIRST_RETRY_SECONDS
                ring()
                async for _ in socket:
                    ring()
        except (OSError, TimeoutError, WebSocketException) as error:
            logger.debug("the doorbell is away: %r", error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_RETRY_SECONDS)


def _connect(control_plane: ControlPlane) -> connect:
    headers = control_plane.headers()
    if control_plane.direct:
        return connect(control_plane.doorbell, additional_headers=headers, proxy=None, close_timeout=CLOSE_SECONDS)
    return connect(control_plane.doorbell, additional_headers=headers, close_timeout=CLOSE_SECONDS)
