"""The JavaScript client by itself, as a page of somebody's own would use it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from django_rivet.actors.key import key_to_url, normalize_key
from django_rivet.models import Message
from example_project.shop.actors import BillingActor, CheckoutActor

CLIENT = "/static/shop/rivet.js"


@pytest.fixture
def page(log_in) -> Page:
    return log_in()


@pytest.mark.usefixtures("shop")
def test_keys_are_written_into_addresses_as_the_server_reads_them(page):
    """Several parts, tildes, zeros, and what an address has to escape."""
    keys = ["main", "a~b", "~0", ["tenant-1", "order-9"], ["a", "0b"], ["a~", "~0", "00"], "\u00e4 ?#%&"]

    written = page.evaluate("async ([client, keys]) => keys.map((await import(client)).keyInAddress)", [CLIENT, keys])

    assert written == [key_to_url(normalize_key(key)) for key in keys]


@pytest.mark.usefixtures("shop")
def test_an_actor_is_made_called_sent_to_and_read_over_http(page):
    """A refusal is an error with its code; a message that is sent twice under one key is there once."""
    told = page.evaluate(
        """async (client) => {
            const { RivetActor } = await import(client);
            const checkout = new RivetActor("shop.CheckoutActor", ["client", "1"]);
            const bill = new RivetActor("shop.BillingActor", "client");
            const made = await checkout.getOrCreate();
            await bill.getOrCreate();
            await bill.call("book", ["order-1"], { amount: 5 });
            const sent = [];
            for (const id of ["a", "a"]) {
                sent.push((await checkout.send("orders", { id }, { idempotencyKey: "one" })).id);
            }
            const refused = await checkout.send("nowhere", {}).catch((error) => [error.name, error.status, error.code]);
            return [made.created, (await bill.show()).state.earned, sent, refused];
        }""",
        CLIENT,
    )

    made, earned, sent, refused = told
    assert made is True
    assert earned == BillingActor.get("client").state.earned == 5
    checkout = CheckoutActor.get(("client", "1"))
    assert len(set(sent)) == 1
    assert Message.objects.filter(actor_id=checkout.id).count() <= 1
    assert refused == ["RivetError", 404, "unknown_queue"]
