"""One turn at a time: no change of state is lost, and none stays of what failed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from django_rivet import Actor, InvalidInputError, action
from django_rivet.models import Actor as ActorRow
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(number: int, work: Any) -> list[Any]:
    """Run ``work(n)`` in that many threads at the same moment; results in order, errors raised."""
    barrier = threading.Barrier(number)
    results: list[Any] = [None] * number
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            barrier.wait()
            results[n] = work(n)
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=[n]) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_twenty_get_or_create_at_once_make_one_actor(shop: SimpleNamespace) -> None:
    """One of them made it, and all have the same."""
    handles = at_once(20, lambda n: shop.Checkout.get_or_create(("tenant", "order")))

    assert len({handle.id for handle in handles}) == 1
    assert sum(handle.created for handle in handles) == 1
    assert ActorRow.objects.count() == 1


def test_actions_at_once_lose_no_change(shop: SimpleNamespace) -> None:
    """Each waits for the turn of the one before."""
    stock = shop.Stock.create("main")

    at_once(20, lambda n: stock.reserve(f"order-{n}"))

    assert sorted(stock.state.reserved) == sorted(f"order-{n}" for n in range(20))


def test_an_action_that_raises_leaves_the_state_as_it_was(shop: SimpleNamespace) -> None:
    """No half of a change stays."""
    stock = shop.Stock.create("main")
    stock.reserve("1")

    with pytest.raises(ValueError, match="not in list"):
        stock.release("reserve-2")

    assert stock.state.reserved == ["1"]


def test_a_state_that_does_not_fit_any_more_is_refused_when_the_turn_ends() -> None:
    """Also where the change was deep inside."""
    with isolated_actors():

        class Basket(Actor):
            class State:
                items: list[int] = []

            @action
            def spoil(self) -> None:
                self.state.items.append("not a number")

        basket = Basket.create("main")

        with pytest.raises(InvalidInputError, match=r"state.items\[0\]"):
            basket.spoil()

        assert basket.state.items == []


def test_a_handle_to_the_own_key_joins_the_running_turn() -> None:
    """An action that calls one of its own actor does not wait for itself."""
    with isolated_actors():

        class Counter(Actor):
            class State:
                count: int = 0

            @action
            def add(self, number: int) -> int:
                self.state.count += number
                return self.state.count

            @action
            def add_twice(self) -> int:
                self.state.count += 1
                return Counter.get("main").add(10) + self.state.count

        counter = Counter.create("main")

        assert counter.add_twice() == 22
        assert counter.state.count == 11


def test_a_read_only_action_waits_for_nobody() -> None:
    """It sees what is committed while another transaction holds the turn."""
    with isolated_actors():

        class Page(Actor):
            class State:
                text: str = "old"

            @action
            def write(self) -> None:
                self.state.text = "new"
                held.set()
                assert release.wait(10)

            @action(readonly=True)
            def read(self) -> str:
                return self.state.text

        held, release = threading.Event(), threading.Event()
        page = Page.create("main")

        def write() -> None:
            page.write()
            connections.close_all()

        writer = threading.Thread(target=write)
        writer.start()
        assert held.wait(10)

        seen = page.read()
        release.set()
        writer.join()

        assert (seen, page.read()) == ("old", "new")


def test_a_result_is_a_copy_of_the_state() -> None:
    """What a caller does with it changes no actor."""
    with isolated_actors():

        class Box(Actor):
            class State:
                items: list[int] = [1]

            @action(readonly=True)
            def get_state(self):
                return self.state

        box = Box.create("main")
        box.get_state().items.append(2)

        assert box.get_state().items == [1]
