"""The web process: HTTP through Django, websockets through Channels."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "laissez.settings")
os.environ.setdefault("LAISSEZ_DATABASE_POOL", "8")
pages_and_api = get_asgi_application()

# Consumers use models, which exist only now.
from laissez.bodies import BoundedBodies
from tenants.consumers import websocket_urlpatterns as feed
from workers.consumers import websocket_urlpatterns as doorbells

# No check of the Origin header here: hosts and programs send none. Each consumer authenticates its caller.
application = ProtocolTypeRouter({"http": BoundedBodies(pages_and_api), "websocket": URLRouter([*feed, *doorbells])})
