"""What a client may say, and what becomes of everything else."""

import json

import pytest

from django_rivet.live.frames import MAX_FRAME_LENGTH
from tests.live.conftest import ClosedByServer, listening, path_of

pytestmark = pytest.mark.django_db(transaction=True)

BAD_FRAMES = {
    "": "invalid_json",
    "hello": "invalid_json",
    "{": "invalid_json",
    '{"type": "subscribe", "since": ' + "9" * 5000 + "}": "invalid_json",
    "[" * 100_000: "invalid_json",
    "null": "invalid_frame",
    "[]": "invalid_frame",
    '"subscribe"': "invalid_frame",
    "{}": "unknown_frame",
    '{"type": null}': "unknown_frame",
    '{"type": ["subscribe"]}': "unknown_frame",
    '{"type": {}}': "unknown_frame",
    '{"type": "Subscribe"}': "unknown_frame",
    '{"type": "rivet.look"}': "unknown_frame",
    '{"type": "websocket.disconnect"}': "unknown_frame",
    '{"type": "action"}': "invalid_frame",
    '{"type": "action", "action": 1}': "invalid_frame",
    '{"type": "action", "action": "' + "x" * 201 + '"}': "invalid_frame",
    '{"type": "send", "queue": null, "body": 1}': "invalid_frame",
    '{"type": "subscribe", "id": 1.5}': "invalid_frame",
    '{"type": "subscribe", "id": true}': "invalid_frame",
    '{"type": "subscribe", "id": 9007199254740992}': "invalid_frame",
    '{"type": "subscribe", "id": "' + "x" * 201 + '"}': "invalid_frame",
    '{"type": "subscribe", "type": "subscribe"}': "invalid_json",
    '{"type": "subscribe", "event": ["ticked"]}': "invalid_frame",
    '{"type": "subscribe", "events": "ticked"}': "invalid_frame",
    '{"type": "subscribe", "events": []}': "invalid_frame",
    '{"type": "subscribe", "events": [1]}': "invalid_frame",
    '{"type": "subscribe", "events": [["ticked"]]}': "invalid_frame",
    '{"type": "subscribe", "events": {"ticked": true}}': "invalid_frame",
    '{"type": "subscribe", "since": -1}': "invalid_frame",
    '{"type": "subscribe", "since": "7"}': "invalid_frame",
    '{"type": "subscribe", "since": 1.0}': "invalid_frame",
    '{"type": "subscribe", "since": true}': "invalid_frame",
    '{"type": "subscribe", "since": 9223372036854775808}': "invalid_frame",
    '{"type": "subscribe", "since": NaN}': "invalid_json",
    '{"type": "subscribe", "key": "other"}': "invalid_frame",
    '{"type": "unsubscribe", "since": 1}': "invalid_frame",
    '{"type": "subscribe", "events": ["tick"]}': "unknown_event",
    '{"type": "subscribe", "events": ["ticked", "\\ud800"]}': "unknown_event",
    '{"type": "subscribe", "events": ["' + "x" * 100_000 + '"]}': "unknown_event",
    '{"type": "unsubscribe", "events": ["tick"]}': "unknown_event",
}


async def test_bad_frames_are_answered_and_change_nothing(ticker, cookie):
    """Each gets an error frame that is not too long, none subscribes to anything, and the connection goes on."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        for text, code in BAD_FRAMES.items():
            await client.say_text(text)
            answer = await client.hear()
            assert (answer["type"], answer["code"]) == ("error", code), text[:100]
            assert len(json.dumps(answer)) < 1000

        # Only the first subscription may say since when.
        await client.say(type="subscribe", since=0)
        await client.settle()
        await main.acall("tick", 1)
        assert (await client.hear())["seq"] == 1


async def test_a_binary_frame_is_answered(ticker, cookie):
    """JSON comes as text."""
    await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say_bytes(b'{"type": "subscribe"}')
        assert (await client.hear())["code"] == "invalid_json"


async def test_a_huge_frame_ends_the_connection(ticker, cookie):
    """Two megabytes are nobody's subscription."""
    await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say_text(json.dumps({"type": "subscribe", "events": ["x" * 2 * MAX_FRAME_LENGTH]}))
        with pytest.raises(ClosedByServer) as closed:
            await client.hear()
        assert closed.value.code == 1009


async def test_since_counts_once(ticker, cookie):
    """Events come in order, once: a later frame cannot turn them back."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1)
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", events=["ticked"], since=0)
        assert (await client.hear())["seq"] == 1
        await client.say(type="subscribe", events=["noted"], since=0)
        assert (await client.hear())["code"] == "since_too_late"
        await main.acall("note", {})
        await main.acall("tick", 2)
        assert (await client.hear())["seq"] == 3


async def test_a_failure_of_our_own_closes_the_connection(ticker, cookie, monkeypatch, caplog):
    """The client learns nothing but that it should come back; the log says why."""
    await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()

        def broken(*args):
            raise RuntimeError("a secret")

        monkeypatch.setattr("django_rivet.live.feed.read_after", broken)
        await client.say(type="subscribe")
        with pytest.raises(ClosedByServer) as closed:
            await client.hear()
    assert closed.value.code == 1011
    assert "a secret" in caplog.text
