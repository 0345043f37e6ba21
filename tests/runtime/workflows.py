"""Four workflows to die in: whatever they do and undo is in the state, exactly once and in order."""

from __future__ import annotations

from types import SimpleNamespace

from django_rivet import (
    Actor,
    Break,
    Continue,
    CriticalError,
    Event,
    Queue,
    QueueTimeoutError,
    RollbackError,
    current_step,
    workflow,
)


def workflows() -> SimpleNamespace:
    """To be called where actor classes may be defined."""

    class Base(Actor):
        class Meta:
            abstract = True

        class State:
            log: list[str] = []

        orders = Queue(str)
        calls = Queue(str)
        done = Event(str)

        def do(self, thing):
            self.state.log.append(thing)
            self.done.broadcast(thing)
            return thing

        def undo(self, rollback, thing):
            self.state.log.append(f"undo {rollback.args[0]}")

        def do_at_second_try(self, thing):
            if current_step().attempt == 1:
                raise OSError("busy")
            return self.do(thing)

        def fail(self, thing):
            raise CriticalError(f"no {thing}")

        def tell(self, thing):
            return f"told {thing}"

    class Tour(Base):
        """A loop in a loop, pruned, all under one checkpoint; fails behind a sleep."""

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("tour")
            ctx.step("flight", self.do, "flight", rollback=self.undo)
            for turn in ctx.loop("days", state=0, history_prune_interval=1):
                turn.state += 1
                turn.step("room", self.do, f"room {turn.iteration}", rollback=self.undo)
                for visit in turn.loop("visits", history_prune_interval=1):
                    visit.step("see", self.do, f"sight {turn.iteration}.{visit.iteration}")
                    if visit.iteration == 1:
                        break
                if turn.state == 2:
                    break
            ctx.sleep("night", 5)
            ctx.step("home", self.fail, "way home")

    class Shop(Base):
        """Messages, and scoped blocks that end well, fail by a step, and by an error of their own."""

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                if turn.iteration == 3:
                    break
                order = turn.queue.next("order", names=["orders"], timeout=50).body
                result = turn.try_block("sale", lambda sale, order=order: self.sell(sale, order), rollback=True)
                turn.step("report", self.do, f"{order}: {result.ok}")
            return "closed"

        def sell(self, sale, order):
            sale.rollback_checkpoint("sale")
            sale.step("reserve", self.do, f"{order} reserved", rollback=self.undo)
            sale.step(
                "charge",
                self.tell,
                order,
                atomic=False,
                rollback=self.undo,
                rollback_when="attempted",
                rollback_atomic=True,
            )
            if order == "a":
                sale.try_step("discount", self.fail, "discount")
            if order == "b":
                sale.sleep("pack", 3)
                sale.step("ship", self.fail, "ship")
            if order == "c":
                raise LookupError("no address")
            return order

    class Night(Base):
        """Values, retries, a loop of a function, time-outs, caught failures; ends well."""

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("night")
            number = ctx.uuid("number")
            same = ctx.step("tell", self.tell, str(number), ephemeral=True) == f"told {number}"
            lost = ctx.try_block("lost", self.lose)
            count = ctx.try_block("sheep", lambda block: block.loop("sheep", self.count_sheep, state=0))
            ctx.step("dream", self.do_at_second_try, "dream")
            batch = ctx.queue.next_batch("letters", count=2, timeout=4)
            try:
                ctx.queue.next("call", names=["calls"], timeout=4)
            except QueueTimeoutError:
                ctx.step("no call", self.do, "no call")
            try:
                ctx.step("snore", self.fail, "snoring")
            except CriticalError:
                ctx.step("silence", self.do, "silence", rollback=self.undo)
            return [same, lost.ok, count.value, [message.body for message in batch]]

        def lose(self, block):
            block.step("found", self.do, "found", rollback=self.undo)
            block.step("lost", self.fail, "luck")

        def count_sheep(self, turn, number):
            turn.step("sheep", self.do, f"sheep {number}", rollback=self.undo)
            return Break(number) if number == 2 else Continue(number + 1)

    class Chain(Base):
        """Scopes in scopes; the last iteration fails, and what it owes is undone with all that was passed on."""

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("chain", on_handler_failure="continue")
            ctx.step("first", self.do, "first", rollback=self.undo)
            ctx.try_block("link", self.link, catch=["rollback"])
            for turn in ctx.loop("links"):
                turn.rollback_checkpoint("link")
                turn.step("hold", self.do, f"hold {turn.iteration}", rollback=self.undo)
                if turn.iteration == 1:
                    turn.step("pull", self.do_at_second_try, "pull")
                    turn.step("break", self.fail, "strength")

        def link(self, block):
            block.step("outer", self.do, "outer", rollback=self.undo)
            block.rollback_checkpoint("link")
            block.step("inner", self.do, "inner", rollback=self.undo)
            raise RollbackError("open it again")

    return SimpleNamespace(Tour=Tour, Shop=Shop, Night=Night, Chain=Chain)
