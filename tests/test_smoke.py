import pytest
from django_rivet import Actor, Queue, Event, action, workflow, CriticalError
from django_rivet.testing import isolated_actors, drive, count_commits, crash_at, SimulatedCrash, advance

pytestmark = pytest.mark.django_db

def make():
    with isolated_actors():
        class InventoryActor(Actor):
            class State:
                reserved: list[str] = []
            @action
            def reserve(self, order_id: str) -> str:
                self.state.reserved.append(order_id)
                return f"reserve-{order_id}"
            @action
            def release(self, reservation: str) -> None:
                self.state.reserved.remove(reservation.removeprefix("reserve-"))
        class CheckoutActor(Actor):
            class State:
                completed: int = 0
                rejected: list[str] = []
                last_error: dict | None = None
            orders = Queue(dict)
            order_failed = Event(dict)
            @workflow
            def run(self, ctx):
                for turn in ctx.loop("checkout"):
                    order = turn.queue.next("wait-order", names=["orders"]).body
                    def take(saga):
                        saga.rollback_checkpoint("order")
                        saga.step("reserve", self.reserve, order["id"], rollback=self.release)
                        saga.step("charge", self.charge, order["id"], atomic=False, max_retries=1, rollback=self.refund)
                        saga.step("confirm", self.confirm, order["id"])
                    result = turn.try_block("order", take, rollback=True)
                    if not result.ok:
                        turn.step("reject", self.reject, order["id"], result.failure.error.message)
            @run.on_error
            def note_error(self, event):
                self.state.last_error = event.as_dict()
                self.order_failed.broadcast(event.as_dict())
            def reserve(self, order_id):
                return InventoryActor.get_or_create("main").reserve(order_id)
            def release(self, rollback, reservation):
                InventoryActor.get_or_create("main").release(reservation)
            def charge(self, order_id):
                if order_id == "bad":
                    raise CriticalError("declined")
                return "ch-" + order_id
            def refund(self, rollback, charge): pass
            def confirm(self, order_id):
                self.state.completed += 1
            def reject(self, order_id, reason):
                self.state.rejected.append(order_id)
            @action(readonly=True)
            def get_state(self):
                return self.state
        yield CheckoutActor, InventoryActor

def test_saga():
    for C, I in make():
        h = C.get_or_create("main")
        assert h.created
        for o in ["a", "bad", "b"]:
            h.send("orders", {"id": o})
        with count_commits() as c:
            print(drive(h))
        print(c.count)
        print(h.history())
        print(h.get_state(), h.snapshot())
        print(I.get("main").state)
        assert h.get_state().completed == 2

@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("after", [False, True])
def test_crash(after):
    for n in range(1, 25):
        for C, I in make():
            h = C.create(f"c{n}")
            I.get_or_create("main").state
            for o in ["a", "bad", "b"]:
                h.send("orders", {"id": o + str(n) if o != "bad" else o})
            try:
                with crash_at(n, after) as p:
                    drive(h)
            except SimulatedCrash:
                pass
            assert drive(h) == "sleeping"
            s = h.get_state()
            print(n, p.crashed, s.completed, s.rejected)
            assert (s.completed, s.rejected) == (2, ["bad"]), str(h.history())
            assert I.get("main").state.reserved == [x + str(i) for i in range(1, n + 1) for x in "ab"]
