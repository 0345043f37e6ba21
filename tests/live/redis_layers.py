"""Channel layers on Redis, and a door to Redis that a test can shut."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import redis
from channels_redis.pubsub import RedisPubSubChannelLayer

LAYERS = ["channels_redis.pubsub.RedisPubSubChannelLayer", "channels_redis.core.RedisChannelLayer"]


def layer_at(url: str, backend: str = LAYERS[0]) -> dict[str, Any]:
    return {"default": {"BACKEND": backend, "CONFIG": {"hosts": [url]}}}


def connections_of(url: str) -> set[str]:
    """Who is connected to that database, by Redis's own numbers; whoever asks does not count."""
    with redis.Redis.from_url(url) as client:
        own = client.client_info()
        # Tests that run at the same time have databases of their own on this server.
        return {
            each["id"] for each in client.client_list() if each["db"] == str(own["db"]) and each["id"] != str(own["id"])
        }


async def close(layer: Any) -> None:
    """Close its connections of the running event loop."""
    # The core layer's own close_pools() closes those of other loops as well, which only these can wait for.
    of_this_loop = (
        layer if isinstance(layer, RedisPubSubChannelLayer) else layer._layers.get(asyncio.get_running_loop())
    )
    if of_this_loop is not None:
        await of_this_loop.flush()


class Door:
    """A port that refuses, or takes everything and never answers, or leads to Redis."""

    def __init__(self, url: str) -> None:
        self.target = int(url.rsplit(":", 1)[1].partition("/")[0])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []

    def hang(self) -> None:
        self._listen(lambda client: None)

    def lead_on(self) -> None:
        self._listen(self._connect)

    def shut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        for each in self._open:
            each.close()
        self._open.clear()

    def _listen(self, answer: Any) -> None:
        self.shut()
        self._server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        threading.Thread(target=self._accept, args=(self._server, answer), daemon=True).start()

    def _accept(self, server: socket.socket, answer: Any) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            self._open.append(client)
            answer(client)

    def _connect(self, client: socket.socket) -> None:
        target = socket.create_connection(("127.0.0.1", self.target))
        self._open.append(target)
        for source, sink in ((client, target), (target, client)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
