"""B49, broadcasting broke on event loops: here from every sort of body, worker and loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async

from django_rivet.models import Event
from django_rivet.runtime.celery_tasks import drive
from django_rivet.runtime.publisher import drain
from tests.journeys.workers import WorkerProcess, eventually
from tests.live.conftest import Listener, listening, path_of
from tests.live.redis_layers import connections_of, layer_at
from tests.live.station.actors import Rehearsal

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = 200
WARM_UP = 8
STUMBLES = range(3, COUNT, 4)


@pytest.fixture
def layer(redis_url: str, settings: Any, fresh_sender: None) -> str:
    settings.CHANNEL_LAYERS = layer_at(redis_url)
    return redis_url


@pytest.fixture(params=["prefork", "threads"])
def worker(
    request: pytest.FixtureRequest, child_environment: dict[str, str], layer: str, tmp_path: Path
) -> Iterator[WorkerProcess]:
    environment = {**child_environment, "DJANGO_SETTINGS_MODULE": "tests.live.station.settings", "REDIS_URL": layer}
    worker = WorkerProcess(environment, tmp_path / "worker.log", f"--pool={request.param}", "--concurrency=1")
    eventually(lambda: worker.is_ready, 60, "the worker is ready", worker.log)
    yield worker
    worker.stop()


async def hear_all(client: Listener, count: int) -> None:
    """All that such a programme broadcasts, in order, with every failure once."""
    stumbles = [number for number in STUMBLES if number < count]
    frames = await client.hear(count + len(stumbles))
    assert [each["payload"] for each in frames if each["name"] == "sent"] == list(range(count))
    assert [each["payload"] for each in frames if each["name"] == "stumbled"] == [f"send {n}" for n in stumbles]
    assert [each["seq"] for each in frames] == list(range(frames[0]["seq"], frames[0]["seq"] + len(frames)))


@database_sync_to_async
def attempts_of(handle: Any) -> dict[str, int]:
    return {each.path.rpartition("/")[2]: each.attempts for each in handle.history() if each.kind == "step"}


@pytest.mark.journey
async def test_b49_a_worker_broadcasts_again_and_again(worker: WorkerProcess, layer: str, cookie: str) -> None:
    """From plain, non-atomic and async bodies and the error hook: all arrive, and Redis has no more connections."""
    main = await Rehearsal.acreate("main")
    async with listening(path_of(Rehearsal), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.asend("programmes", WARM_UP)
        await hear_all(client, WARM_UP)
        before = connections_of(layer)

        await main.asend("programmes", COUNT)
        await hear_all(client, COUNT)
        assert connections_of(layer) <= before

    log = worker.log.read_text()
    assert "Traceback" not in log
    assert "event loop" not in log.lower()


async def test_b49_a_drive_inside_an_async_view_uses_no_loop_of_the_view(layer: str, cookie: str, caplog: Any) -> None:
    """The task is run eagerly, in the process and the event loop that serve clients."""
    main = await Rehearsal.acreate("main")
    eagerly = database_sync_to_async(lambda: drive.apply((main.id,)).get())
    async with listening(path_of(Rehearsal), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        for count in (WARM_UP, COUNT):
            before = connections_of(layer)
            await main.asend("programmes", count)
            hearing = asyncio.create_task(hear_all(client, count))
            while not hearing.done():
                await eagerly()
                await asyncio.sleep(0.01)
            await hearing
            assert await asyncio.to_thread(drain, 30)
        assert connections_of(layer) <= before

    assert [
        each for each in caplog.records if each.levelname in ("WARNING", "ERROR") and "loop" in each.getMessage()
    ] == []


async def test_b49_a_failed_broadcast_fails_no_step(guarded_layer: Any) -> None:
    """Without Redis every event is stored, and no step but those that stumble has a second attempt."""
    main = await Rehearsal.acreate("main")
    await main.asend("programmes", 20)
    for _ in range(3):
        await database_sync_to_async(lambda: drive.apply((main.id,)).get())()

    found = await attempts_of(main)
    assert {found[f"send {n}"] for n in range(20) if n % 4 != 3} == {1}
    assert {found[f"send {n}"] for n in range(3, 20, 4)} == {2}
    assert await Event.objects.filter(actor_id=main.id).acount() == 25
