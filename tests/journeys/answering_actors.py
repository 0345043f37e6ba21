"""An actor that answers what it is asked."""

from __future__ import annotations

import time

from django_rivet import Actor, Queue, current_step, workflow
from tests.journeys import outside


class OracleActor(Actor):
    """Answers in capital letters; the first attempt at a hard question takes longer than anybody waits."""

    questions = Queue(str, str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("questions", state=0):
            question = turn.queue.next("question", completable=True)
            if question.body == "go home":
                question.complete("bye")
                return turn.state
            answer = turn.step("think", self.think, question.body, atomic=False, timeout=0)
            question.complete(answer)
            turn.state += 1
        return None

    def think(self, question: str) -> str:
        outside.note(question, current_step().idempotency_key)
        if question == "hard" and current_step().attempt == 1:
            time.sleep(3600)
        return question.upper()
