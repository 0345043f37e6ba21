"""One ASGI application: Django's pages and API over HTTP, actors' events over WebSocket."""

import os
import warnings

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

# Whitenoise's static files are read in a thread, which is right for an example.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")

# Sets Django up, so it comes before anything that imports models.
django_application = get_asgi_application()

from django_rivet.routing import websocket_urlpatterns  # noqa: E402 - needs Django set up

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
