"""The report: what was done to whom, what was asked for, and what of the promises held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import actors
from tests.chaos.crew import Crew
from tests.chaos.fire import Arsonist
from tests.chaos.load import Load
from tests.chaos.recovery import Recoveries
from tests.chaos.verdict import PROMISES, Verdict

SHOWN = 10
LOG_LINES = 40


def report(
    head: str, arsonist: Arsonist, load: Load, recoveries: Recoveries, verdict: Verdict, settled_in: float
) -> str:
    lines = [head, "", "done"]
    for kind in sorted({*arsonist.done, *arsonist.missed}):
        missed = f"   ({arsonist.missed[kind]} more hit nobody)" if arsonist.missed[kind] else ""
        lines.append(f"  {arsonist.done[kind]:>5}  {kind}{missed}")
    ends = Counter(trip["end"] for trip in load.trips.values())
    again = ", ".join(f"{count} {cause}" for cause, count in sorted(verdict.again.items())) or "none"
    lines += [
        "",
        "asked for",
        f"  {len(load.sent):>5}  orders, {sum(order['fails'] for _, order in load.sent)} of them to be compensated",
        f"  {len(load.trips):>5}  trips, {ends['fail']} of them to be repaired, {ends['cancel']} to be cancelled",
        f"  {verdict.first:>5}  non-atomic effects, run again by cause: {again}",
        f"  {verdict.stalls:>5}  times a process got no time from the machine",
        "",
        "found",
    ]
    lines += [f"  {verdict.count(promise):>5}  {promise}" for promise in PROMISES]
    lines += ["", f"all settled {settled_in:.1f} s after the fire", times(sorted(recoveries.took))]
    return "\n".join(lines)


def times(took: Sequence[float]) -> str:
    """From the death of a worker to the next commit of an actor that it held."""
    if not took:
        return "nobody who died held an actor"
    median, late = took[len(took) // 2], took[min(len(took) - 1, int(len(took) * 0.95))]
    return f"time to recover ({len(took)} actors): median {median:.1f} s, p95 {late:.1f} s, worst {took[-1]:.1f} s"


def accusation(seed: int, crew: Crew, verdict: Verdict, folder: Path) -> str:
    """What somebody needs who looks for the cause."""
    parts = [f"seed {seed}"]
    parts += [f"{fault.promise}: {fault.what}" for fault in verdict.faults[:SHOWN]]
    if len(verdict.faults) > SHOWN:
        parts.append(f"and {len(verdict.faults) - SHOWN} more")
    for actor in list(dict.fromkeys(fault.actor for fault in verdict.faults if fault.actor))[:3]:
        name, key = actor
        parts += [f"--- history of {name} {key}", str(getattr(actors, name).get(key).history())]
    for log in sorted(folder.glob("worker-*.log"), key=lambda path: path.stat().st_mtime)[-len(crew.pools) * 2 :]:
        tail = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        parts += [f"--- the last lines of {log.name}", *tail]
    return "\n".join(parts)
