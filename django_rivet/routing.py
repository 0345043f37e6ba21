"""``websocket_urlpatterns`` for Channels."""

websocket_urlpatterns: list[object] = []
