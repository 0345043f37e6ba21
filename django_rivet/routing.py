"""``websocket_urlpatterns`` for Channels: put them behind an origin check and ``AuthMiddlewareStack``."""

from __future__ import annotations

from typing import Any

from django.urls import path

from django_rivet.live.consumer import ActorConsumer

_consumer: Any = ActorConsumer.as_asgi()

websocket_urlpatterns = [path("ws/rivet/<str:type>/<str:key>/", _consumer, name="rivet-live")]
