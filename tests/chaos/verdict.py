"""Compares what was asked for with the ledger, the rows and the actors. No promise here is about time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from django_rivet.models import Compensation, Entry, Message
from tests.chaos import plan
from tests.chaos.actors import OrderActor, StockActor, TallyActor, TripActor
from tests.chaos.crew import Hit
from tests.chaos.ledger import Line
from tests.chaos.load import Load
from tests.chaos.runs import Causes, Run, runs_of
from tests.journeys.models import Effect

FORWARD = ["reserve", "charge", "pack", "label", "confirm"]
BACKWARD = ["unpack", "refund", "release", "reject"]
OUTSIDE = {"charge", "refund", "label", "pay", "repay"}

PROMISES = [
    "lost",
    "atomic effects doubled",
    "stuck",
    "non-atomic effects without a cause",
    "completed steps run again",
    "steps with two keys",
    "messages out of order",
    "compensations out of order or not once",
    "other than planned",
]


@dataclass(frozen=True, slots=True)
class Fault:
    promise: str
    what: str
    actor: tuple[str, str] | None = None
    """Type and key, where its history tells more."""


@dataclass
class Verdict:
    faults: list[Fault] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)
    """Non-atomic bodies that ran more than once, by cause."""
    first: int = 0
    """Non-atomic effects."""
    stalls: int = 0

    def count(self, promise: str) -> int:
        return sum(fault.promise == promise for fault in self.faults)


def judge(load: Load, lines: Sequence[Line], hits: Sequence[Hit], unsettled: Sequence[str]) -> Verdict:
    verdict = Verdict([Fault("stuck", what) for what in unsettled])
    verdict.faults += [Fault("other than planned", what) for what in load.faults]
    judge = Judge(load, lines, hits, verdict)
    judge.rows()
    judge.orders()
    judge.tally()
    judge.trips()
    judge.bodies()
    judge.records()
    return verdict


class Judge:
    """One method per thing to compare; each adds its faults to the verdict."""

    def __init__(self, load: Load, lines: Sequence[Line], hits: Sequence[Hit], verdict: Verdict) -> None:
        self.load = load
        self.verdict = verdict
        self.causes = Causes(hits, lines)
        self.runs = runs_of(lines)
        verdict.stalls = len(self.causes.stalls)
        names = list(Effect.objects.order_by("id").values_list("name", flat=True))
        self.with_keys = Counter(names)
        self.counted = Counter(name.rpartition(" ")[0] for name in names)
        """How often a body's row came, under whatever key."""
        self.first: dict[str, float] = {}
        """When a body first began."""
        for (body, _), runs in self.runs.items():
            self.first[body] = min(self.first.get(body, runs[0].begin.at), runs[0].begin.at)
        self.ended = {body for (body, _), runs in self.runs.items() if any(_ended(run) for run in runs)}
        self.where = {order["id"]: key for key, order in load.sent}

    def rows(self) -> None:
        """Each row bears its step's key, which only a compensation changes."""
        for name, times in self.with_keys.items():
            if times > 1:
                self._add("atomic effects doubled", f"{times} rows {name}", self._actor_of(name))

    def orders(self) -> None:
        by_actor: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for key, order in self.load.sent:
            by_actor[key].append(order)
        reserved: Counter[str] = Counter()
        for key, orders in by_actor.items():
            state = OrderActor.get(key).state
            self._seen(key, state.seen, orders)
            ends = Counter(state.confirmed) + Counter(state.rejected)
            for order in orders:
                end = "rejected" if order["fails"] else "confirmed"
                if not ends[order["id"]]:
                    self._add("lost", f"order {order['id']} has no end", ("OrderActor", key))
                elif ends[order["id"]] > 1:
                    self._add("atomic effects doubled", f"order {order['id']} ended twice", ("OrderActor", key))
                elif order["id"] not in getattr(state, end):
                    self._add("other than planned", f"order {order['id']} is not {end}", ("OrderActor", key))
                else:
                    self._order(order, key)
                reserved[order["id"]] = 0 if order["fails"] else 1
        stock = Counter(
            order for n in range(plan.STOCKS) for order in StockActor.get_or_create(f"stock-{n}").state.reserved
        )
        for name, times in reserved.items():
            if stock[name] != times:
                self._add("atomic effects doubled" if stock[name] > times else "lost", f"{name} in stock")

    def tally(self) -> None:
        heard = TallyActor.get_or_create("main").state.heard
        by_sender: dict[str, list[list[Any]]] = defaultdict(list)
        for sender, number, order in heard:
            by_sender[sender].append([number, order])
        for key in {key for key, _ in self.load.sent}:
            said = [[n + 1, order] for n, order in enumerate(OrderActor.get(key).state.confirmed)]
            self._compare_messages(f"notes of {key}", by_sender[key], said, ("TallyActor", "main"))

    def trips(self) -> None:
        for key, trip in self.load.trips.items():
            status = TripActor.get(key).status
            wanted = {"arrive": {"completed"}, "fail": {"completed"}, "cancel": {"completed", "cancelled"}}[trip["end"]]
            if key in self.load.cancelled:
                wanted = {"completed", "cancelled"}
            elif trip["end"] == "cancel":
                wanted = {"completed"}
            if status not in wanted:
                self._add("other than planned", f"trip {key} ({trip['end']}) is {status}", ("TripActor", key))
                continue
            self._trip(key, trip, status)

    def bodies(self) -> None:
        keys: dict[str, set[str]] = defaultdict(set)
        for (body, key), runs in self.runs.items():
            keys[body].add(key)
            if body.rpartition("/")[2] not in OUTSIDE:
                continue
            self.verdict.first += 1
            for earlier, later in pairwise(runs):
                cause = self.causes.explain(earlier, later)
                self.verdict.again[cause or "no cause"] += 1
                if not cause:
                    self._add("non-atomic effects without a cause", f"{body}: {_tell(runs)}", self._actor_of(body))
        for body, found in keys.items():
            again = body.startswith("trip:") and body[5:].partition("/")[0] in self.load.recovered
            if len(found) > (2 if again else 1):
                self._add("steps with two keys", f"{body}: {sorted(found)}", self._actor_of(body))

    def records(self) -> None:
        """The engine's own books agree that nothing is left to do."""
        for owed in Compensation.objects.filter(status__in=["owed", "failed"]).select_related("actor")[:5]:
            who = (owed.actor.type.rpartition(".")[2], owed.actor.key)
            if owed.actor.run.status in ("completed", "cancelled"):
                self._add("compensations out of order or not once", f"{owed} is left over", who)
        for message in Message.objects.exclude(status__in=["queued", "handled"])[:5]:
            self._add("lost", f"message {message} is {message.status}")
        ended = Entry.objects.filter(retired=None, kind="step", actor__run__status="completed")
        for entry in ended.exclude(status="completed").select_related("actor")[:5]:
            who = (entry.actor.type.rpartition(".")[2], entry.actor.key)
            self._add("other than planned", f"{entry} in a completed workflow", who)

    # Below: how it is done -------------------------------------------------------------------

    def _order(self, order: dict[str, Any], key: str) -> None:
        actor = ("OrderActor", key)
        forward = [step for step in FORWARD if not (order["fails"] and step == "confirm")]
        steps = [f"order:{order['id']}/{step}" for step in forward + (BACKWARD if order["fails"] else [])]
        for body in steps:
            name = body.rpartition("/")[2]
            if name in OUTSIDE and body not in self.ended:
                self._add("lost", f"{body} never came to its end", actor)
            elif name not in OUTSIDE and self.counted[body] != 1:
                promise = "atomic effects doubled" if self.counted[body] else "lost"
                if name in BACKWARD:
                    promise = "compensations out of order or not once"
                self._add(promise, f"{self.counted[body]} rows {body}", actor)
        unwanted = ["confirm"] if order["fails"] else BACKWARD
        for name in unwanted:
            if f"order:{order['id']}/{name}" in self.first:
                self._add("other than planned", f"{name} of order {order['id']} was run", actor)
        self._in_order(steps, actor)

    def _trip(self, key: str, trip: dict[str, Any], status: str) -> None:
        actor = ("TripActor", key)
        legs = range(trip["legs"])
        passes = 2 if key in self.load.recovered else 1
        for leg in legs:
            booked, unbooked = (self.counted[f"trip:{key}/{name}-{leg}"] for name in ("book", "unbook"))
            if status == "completed" and (booked, unbooked) != (passes, passes - 1):
                self._add("atomic effects doubled" if booked > passes else "lost", f"{booked} times leg {leg}", actor)
            if status == "cancelled" and (booked != unbooked or booked > passes):
                self._add("compensations out of order or not once", f"leg {leg}: +{booked} -{unbooked}", actor)
        if status == "completed":
            if self.counted[f"trip:{key}/arrive"] != 1:
                self._add("lost", f"{self.counted[f'trip:{key}/arrive']} arrivals", actor)
            if f"trip:{key}/pay" not in self.ended:
                self._add("lost", "never paid", actor)
        elif f"trip:{key}/pay" in self.first and f"trip:{key}/repay" not in self.ended:
            self._add("compensations out of order or not once", "paid and not paid back", actor)
        # Legs are booked at the same time, and no ledger knows which was on record first.
        for leg in legs:
            undo = [f"trip:{key}/repay", f"trip:{key}/unbook-{leg}"]
            self._in_order([body for body in undo if body in self.first], actor)

    def _in_order(self, steps: Sequence[str], actor: tuple[str, str]) -> None:
        """Each begins after the one before, and none begins when a later one has: that is on record then."""
        begun = [step for step in steps if step in self.first]
        for before, after in pairwise(begun):
            if self.first[before] > self.first[after]:
                promise = "compensations out of order or not once"
                self._add(promise, f"{after} began before {before}", actor)
        for before, after in pairwise(begun):
            for run in self._runs_of_body(before):
                if run.begin.at > self.first[after] and not self.causes.is_thawed(run.begin):
                    self._add("completed steps run again", f"{before} after {after}: {_tell([run])}", actor)

    def _runs_of_body(self, body: str) -> list[Run]:
        return [run for runs in self._by_body()[body] for run in runs]

    def _by_body(self) -> dict[str, list[list[Run]]]:
        if not hasattr(self, "_bodies"):
            self._bodies: dict[str, list[list[Run]]] = defaultdict(list)
            for (body, _), runs in self.runs.items():
                self._bodies[body].append(runs)
        return self._bodies

    def _seen(self, key: str, seen: list[list[int]], orders: list[dict[str, Any]]) -> None:
        for sender in range(plan.SENDERS):
            got = [each for each in seen if each[0] == sender]
            said = [[sender, order["number"]] for order in orders if order["sender"] == sender]
            self._compare_messages(f"sender {sender}", got, said, ("OrderActor", key))

    def _compare_messages(self, what: str, got: list[Any], said: list[Any], actor: tuple[str, str]) -> None:
        if got == said:
            return
        missing = [each for each in said if each not in got]
        doubled = [each for each in got if got.count(each) > 1]
        if missing:
            self._add("lost", f"{what}: {missing[:5]}", actor)
        elif doubled:
            self._add("atomic effects doubled", f"{what}: {doubled[:5]}", actor)
        else:
            self._add("messages out of order", f"{what}: {got} instead of {said}", actor)

    def _actor_of(self, body: str) -> tuple[str, str] | None:
        kind, _, rest = body.partition(":")
        name = rest.partition("/")[0]
        return ("TripActor", name) if kind == "trip" else ("OrderActor", self.where.get(name, "orders-0"))

    def _add(self, promise: str, what: str, actor: tuple[str, str] | None = None) -> None:
        self.verdict.faults.append(Fault(promise, what, actor))


def _ended(run: Run) -> bool:
    return run.end is not None and run.end.what == "end"


def _tell(runs: Sequence[Run]) -> str:
    return "; ".join(
        f"attempt {run.begin.attempt} in {run.begin.pid} from {run.begin.at:.2f}"
        + (f" to {run.end.at:.2f} {run.end.what} {run.end.error}" if run.end else " without an end")
        for run in runs
    )
