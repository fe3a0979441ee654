"""The host's doorbell: a websocket on which the only word is "ring". What has changed, a sync tells."""

from typing import Any

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from laissez.errors import Refused
from workers.services import hosts
from workers.services.doorbell import group_of

REFUSED = 4401


class HostDoorbell(AsyncWebsocketConsumer):
    """One connection of one host. Hosts send no Origin; their key is what lets them in."""

    host = 0
    group = ""

    async def connect(self) -> None:
        """Accept a host that shows its key, and listen for rings."""
        headers = dict(self.scope["headers"])
        scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise Refused("bad_key", "There is no key.")
            host = await sync_to_async(hosts.authenticate)(key.strip())
        except Refused:
            await self.close(REFUSED)
            return
        self.host, self.group = host.pk, group_of(host.pk)
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        """Stop listening."""
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def host_ring(self, message: dict[str, Any]) -> None:
        """Pass a ring on, if it is for this host."""
        if self.host in message["hosts"]:
            await self.send(text_data="sync")


websocket_urlpatterns = [path("ws/host", HostDoorbell.as_asgi())]
