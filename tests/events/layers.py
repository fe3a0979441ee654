"""Channel layers that remember, refuse, or never answer."""

import asyncio
from typing import Any

from channels.layers import BaseChannelLayer


class RememberingLayer(BaseChannelLayer):
    """Keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, dict[str, Any]]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.require_valid_group_name(group)
        self.sent.append((group, message))


class RefusingLayer(BaseChannelLayer):
    """Its server is down."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        raise ConnectionRefusedError("nobody listens")


class SilentLayer(BaseChannelLayer):
    """Its server hangs."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async def new_channel(self, prefix: str) -> str:
        return prefix

    async def receive(self, channel: str) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def group_add(self, group: str, channel: str) -> None:
        await asyncio.Event().wait()

    async def group_discard(self, group: str, channel: str) -> None:
        await asyncio.Event().wait()
