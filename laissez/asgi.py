"""The web process: HTTP through Django, websockets through Channels."""

import os
import sys

import django
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "laissez.settings")
os.environ.setdefault("LAISSEZ_DATABASE_POOL", "8")
django.setup(set_prefix=False)

# Consumers use models, which exist only now.
from laissez.bodies import BoundedBodies
from laissez.serving import OneHopHandler, spare_what_stays
from tenants.consumers import websocket_urlpatterns as feed
from workers.consumers import websocket_urlpatterns as doorbells

sys.setswitchinterval(0.001)
"""Seconds after which a busy thread lets the event loop go on: by default a socket waits for five times as long."""

# No check of the Origin header here: hosts and programs send none. Each consumer authenticates its caller.
application = ProtocolTypeRouter({"http": BoundedBodies(OneHopHandler()), "websocket": URLRouter([*feed, *doorbells])})
spare_what_stays()
