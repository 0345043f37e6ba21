"""LOOP-25: a construct that is over counts for all that is below it, and loops inside loops survive every crash."""

import pytest

from django_rivet import Actor, Break, Continue, Queue, workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive

pytestmark = pytest.mark.django_db


def iterator_loop(context, name):
    for turn in context.loop(name):
        turn.step("one", int)
        turn.sleep("nap", 1)
        if turn.iteration == 1:
            break


def function_loop(context, name):
    def once(turn):
        turn.step("one", lambda: turn.iteration)
        turn.sleep("nap", 1)
        return Break(turn.iteration) if turn.iteration == 1 else None

    context.loop(name, once)


def plain_block(context, name):
    def body(block):
        block.step("one", lambda: 1)
        iterator_loop(block, "inner")

    assert context.try_block(name, body).ok


def failed_block(context, name):
    def body(block):
        block.step("one", lambda: 1)
        block.step("two", lambda: 1 / 0, max_retries=0)

    assert not context.try_block(name, body).ok


def saga(context, name):
    def body(block):
        block.rollback_checkpoint("start")
        iterator_loop(block, "inner")

    assert context.try_block(name, body, rollback=True).ok


def failed_saga(context, name):
    def body(block):
        block.rollback_checkpoint("start")
        iterator_loop(block, "inner")
        raise LookupError

    assert not context.try_block(name, body, rollback=True).ok


def loop_left_by_an_error(context, name):
    try:
        for turn in context.loop(name):
            iterator_loop(turn, "inner")
            raise LookupError
    except LookupError:
        pass


def loop_left_at_once(context, name):
    for _turn in context.loop(name):
        break


def empty_block(context, name):
    assert context.try_block(name, lambda block: "nothing to do").value == "nothing to do"


def empty_blocks(context, name):
    context.try_block(name, lambda block: empty_block(block, "inner"))


def empty_saga(context, name):
    assert context.try_block(name, lambda block: "nothing to do", rollback=True).ok


CONSTRUCTS = [
    iterator_loop,
    function_loop,
    plain_block,
    failed_block,
    saga,
    failed_saga,
    loop_left_by_an_error,
    loop_left_at_once,
    empty_block,
    empty_blocks,
    empty_saga,
]


def in_the_workflow(ctx, construct):
    construct(ctx, "it")
    ctx.sleep("rest", 60)


def in_an_iteration(ctx, construct):
    for turn in ctx.loop("outer"):
        construct(turn, "it")
        turn.sleep("rest", 60)
        if turn.iteration == 1:
            return


def in_an_iteration_of_a_function(ctx, construct):
    def once(turn):
        construct(turn, "it")
        turn.sleep("rest", 60)
        return Break() if turn.iteration == 1 else None

    ctx.loop("outer", once)


def in_a_block(ctx, construct):
    def body(block):
        construct(block, "it")
        block.sleep("rest", 60)

    assert ctx.try_block("outer", body).ok


def in_a_saga(ctx, construct):
    def body(block):
        construct(block, "it")
        block.sleep("rest", 60)

    assert ctx.try_block("outer", body, rollback=True).ok


SCOPES = [in_the_workflow, in_an_iteration, in_an_iteration_of_a_function, in_a_block, in_a_saga]


def drive_to_the_end(actor):
    """Moves the clock for every wait."""
    for _ in range(50):
        if drive(actor) != "sleeping":
            return actor.status
        advance(61)
    raise AssertionError(f"{actor!r} does not end:\n{actor.history()}")


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("scope", SCOPES, ids=lambda function: function.__name__)
def test_loop_25_unchanged_code_never_diverges_on_a_construct_that_is_over(scope, construct):
    """A later pass takes the construct from its record, and the scope around it ends well.

    Differs on purpose from the reference, where the inner entries count as unvisited and unchanged code diverges.
    """

    class Nested(Actor):
        @workflow
        def run(self, ctx):
            scope(ctx, construct)
            ctx.sleep("at last", 60)
            return "done"

    nested = Nested.create("one")

    assert drive_to_the_end(nested) == "completed", str(nested.error)
    assert nested.output == "done"


def iterator_form(ctx, pack):
    for turn in ctx.loop("orders", state={"packed": 0}, history_prune_interval=2):
        items = turn.queue.next("order").body
        for each in turn.loop("items", state=0, history_prune_interval=1):
            if each.state == len(items):
                break
            each.step("pack", pack, items[each.state])
            each.sleep("rest", 1)
            each.state += 1
        turn.state["packed"] += len(items)
        turn.step("label", pack, f"label {turn.state['packed']}")
        if turn.iteration == 3:
            break
    ctx.step("close", pack, "close")
    return turn.state["packed"]


def function_form(ctx, pack):
    def order(turn, state):
        items = turn.queue.next("order").body
        turn.loop("items", lambda each, done: item(each, items, done), state=0, history_prune_interval=1)
        packed = state["packed"] + len(items)
        turn.step("label", pack, f"label {packed}")
        return Break(packed) if turn.iteration == 3 else Continue({"packed": packed})

    def item(each, items, done):
        if done == len(items):
            return Break()
        each.step("pack", pack, items[done])
        each.sleep("rest", 1)
        return Continue(done + 1)

    packed = ctx.loop("orders", order, state={"packed": 0}, history_prune_interval=2)
    ctx.step("close", pack, "close")
    return packed


def packers(form):
    class Packer(Actor):
        class State:
            packed: list[str] = []

        orders = Queue(list)

        @workflow
        def run(self, ctx):
            return form(ctx, self.pack)

        def pack(self, item):
            self.state.packed.append(item)

    return Packer


EXPECTED = ["a", "b", "label 2", "label 2", "c", "label 3", "d", "e", "label 5", "close"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("form", [iterator_form, function_form], ids=lambda function: function.__name__)
def test_loops_inside_loops_survive_a_crash_at_every_commit(form, after):
    """Every item is packed once and in order, wherever the worker dies, and wherever the next one dies again."""
    Packer = packers(form)
    crashes = 0
    for n in range(1, 40):
        packer = Packer.create(f"crash {n}")
        for items in (["a", "b"], [], ["c"], ["d", "e"]):
            packer.send("orders", items)
        for more in (0, 1, 2):
            try:
                with crash_at(n + more, after):
                    drive_to_the_end(packer)
            except SimulatedCrash:
                crashes += 1

        assert drive_to_the_end(packer) == "completed", f"crash at {n}: {packer.error}\n{packer.history()}"
        assert packer.state.packed == EXPECTED, f"crash at commit {n}"
        assert packer.output == 5
    assert crashes > 30
