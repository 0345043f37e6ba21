"""The hot statements, as text, in one place.

Everything else goes through the ORM. These run for every step, and building them there would cost more than the
database takes to answer. ``{now}`` and ``{lease}`` stand for expressions of the database's clock.
"""

from __future__ import annotations

from django_rivet.store.records import COMPENSATION_COLUMNS, ENTRY_COLUMNS

ACTIVE = "('pending', 'running', 'sleeping', 'rolling_back', 'diverged')"

# A waiting claim tests all of this again once it has the row lock, and then updates nothing.
IS_FREE_AND_DUE = f"""
    r.status IN {ACTIVE} AND (
        (r.holder IS NOT NULL AND (r.lease_until <= {{now}} OR r.holder = %s))
        OR (r.holder IS NULL AND (r.due_at <= {{now}} OR (r.waiting IS NOT NULL AND EXISTS (
            SELECT 1 FROM django_rivet_message m
            WHERE m.actor_id = r.actor_id AND m.status = 'queued' AND m.visible_at <= {{now}}
              AND (r.waiting = ',' OR {{position}})
        ))))
    )
"""  # noqa: S608 - no value is put into the text

CLAIM = f"""
    UPDATE django_rivet_workflowrun AS r SET
        epoch = r.epoch + 1,
        takeovers = r.takeovers + CASE WHEN r.holder IS NULL OR r.leaving THEN 0 ELSE 1 END,
        leaving = FALSE,
        cut_off = r.cut_off OR r.holder IS NOT NULL,
        holder = %s,
        lease_until = {{lease}},
        started_at = COALESCE(r.started_at, {{now}}),
        status = CASE WHEN r.status IN ('pending', 'sleeping') THEN 'running' ELSE r.status END,
        updated_at = {{now}}
    WHERE r.actor_id = %s AND {IS_FREE_AND_DUE}
    RETURNING epoch, takeovers, cut_off, status, request, generation, error, started_at, pausing, {{now}}
"""  # noqa: S608 - no value is put into the text

# A hint that comes in vain, doubled or late, costs this look: it locks nothing, as a claim would on SQLite. A hint for
# a message is void where that was handled since, or where the actor was handed over in the middle of its messages: it
# has its place behind the others then, and each message that came meanwhile would give it one more in front of them.
LOOK = f"""
    SELECT a.type, a.key FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
    WHERE r.actor_id = %s AND {IS_FREE_AND_DUE}
      AND (%s IS NULL OR r.epoch = %s)
      AND (%s IS NULL OR (
          r.waiting IS NOT NULL
          AND EXISTS (SELECT 1 FROM django_rivet_message m WHERE m.id = %s AND m.status = 'queued')
      ))
"""  # noqa: S608 - no value is put into the text

HELD_SLOTS = """
    SELECT count(*) FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
    WHERE r.holder IS NOT NULL AND a.type = %s
"""

LIVE_SLOTS = f"{HELD_SLOTS} AND r.lease_until > {{now}} AND r.holder <> %s"

# As a claim that takes over leaves it, but with nobody who holds it. Whose row is locked is just renewing its lease.
EVICT = """
    UPDATE django_rivet_workflowrun SET
        epoch = epoch + 1, takeovers = takeovers + CASE WHEN leaving THEN 0 ELSE 1 END, leaving = FALSE,
        cut_off = TRUE, holder = NULL, lease_until = NULL, due_at = {now}
    WHERE actor_id IN (
        SELECT r.actor_id FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE a.type = %s AND r.holder IS NOT NULL AND (r.lease_until <= {now} OR r.holder = %s) {skip_locked}
    )
"""

RENEW = """
    UPDATE django_rivet_workflowrun SET lease_until = {lease}, leaving = %s
    WHERE actor_id = %s AND epoch = %s RETURNING request
"""

# The last act of every commit: without this row the commit belongs to a worker that has lost the actor.
FENCE = """
    UPDATE django_rivet_workflowrun SET
        lease_until = {lease}, takeovers = CASE WHEN %s THEN 0 ELSE takeovers END, status = %s, updated_at = {now}
    WHERE actor_id = %s AND epoch = %s RETURNING request, pausing
"""

RELEASE = """
    UPDATE django_rivet_workflowrun SET
        holder = NULL, lease_until = NULL, takeovers = CASE WHEN %s THEN 0 ELSE takeovers END,
        cut_off = CASE WHEN %s THEN cut_off ELSE %s END,
        status = CASE WHEN %s AND request <> '' THEN 'cancelled' WHEN %s AND pausing THEN 'paused' ELSE %s END,
        paused_from = CASE WHEN %s AND pausing THEN %s ELSE '' END, pausing = FALSE, waiting = %s, output = %s,
        error = CASE WHEN %s AND request <> '' THEN NULL ELSE %s END,
        due_at = CASE WHEN %s AND request <> '' THEN {now} ELSE %s END,
        request = CASE WHEN %s THEN request ELSE '' END, updated_at = {now}
    WHERE actor_id = %s AND epoch = %s RETURNING request
"""

# A worker died before it could pause the actor: the one that took it over pauses it, and has changed nothing.
STAND_STILL = """
    UPDATE django_rivet_workflowrun SET
        holder = NULL, lease_until = NULL, due_at = {now}, pausing = FALSE, status = 'paused',
        paused_from = CASE WHEN status = 'running' THEN 'sleeping' ELSE status END, updated_at = {now}
    WHERE actor_id = %s AND epoch = %s AND pausing RETURNING epoch
"""

# No join: where PostgreSQL knows nothing about the tables yet, it would compare each entry with each compensation.
HISTORY = f"""
    SELECT {", ".join(ENTRY_COLUMNS)}, {", ".join("NULL" for _ in COMPENSATION_COLUMNS)}
    FROM django_rivet_entry WHERE actor_id = %s AND retired IS NULL
    UNION ALL
    SELECT {", ".join("NULL" for _ in ENTRY_COLUMNS)}, {", ".join(COMPENSATION_COLUMNS)}
    FROM django_rivet_compensation WHERE actor_id = %s AND status IN ('owed', 'failed')
    ORDER BY seq
"""  # noqa: S608 - columns come from constants

UPSERT_ENTRIES = f"""
    INSERT INTO django_rivet_entry (actor_id, generation, {", ".join(ENTRY_COLUMNS)})
    VALUES {{rows}}
    ON CONFLICT (actor_id, path) WHERE retired IS NULL DO UPDATE SET
        {", ".join(f"{c} = excluded.{c}" for c in ENTRY_COLUMNS if c != "path")}
"""  # noqa: S608 - columns come from constants

UPSERT_COMPENSATIONS = f"""
    INSERT INTO django_rivet_compensation (actor_id, {", ".join(COMPENSATION_COLUMNS)})
    VALUES {{rows}}
    ON CONFLICT (actor_id, path, run) DO UPDATE SET
        {", ".join(f"{c} = excluded.{c}" for c in COMPENSATION_COLUMNS if c not in ("path", "run"))}
"""  # noqa: S608 - columns come from constants

DELETE_ENTRIES = "DELETE FROM django_rivet_entry WHERE actor_id = %s AND retired IS NULL AND path IN ({paths})"

DELETE_COMPENSATIONS = "DELETE FROM django_rivet_compensation WHERE actor_id = %s AND path IN ({paths})"

PEEK = """
    SELECT id, queue, body, created_at FROM django_rivet_message
    WHERE actor_id = %s AND status = 'queued' AND visible_at <= {now}{queues}{excluding}
    ORDER BY id LIMIT %s
"""

TAKE = """
    UPDATE django_rivet_message SET status = 'handled', handled_at = {now}
    WHERE actor_id = %s AND status = 'queued' AND id IN ({ids})
"""

# Nobody else gets it, and it counts as unhandled, until it is completed.
OPEN = """
    UPDATE django_rivet_message SET status = 'open'
    WHERE actor_id = %s AND status = 'queued' AND id IN ({ids})
"""

COMPLETE = """
    UPDATE django_rivet_message SET status = 'completed', handled_at = {now}, response = %s
    WHERE actor_id = %s AND id = %s AND status = 'open'
"""

# Back to its place: its id. What was completed has its answer, and is over.
PUT_BACK = """
    UPDATE django_rivet_message SET status = 'queued', handled_at = NULL
    WHERE actor_id = %s AND status IN ('handled', 'open') AND id IN ({ids})
"""

SEND = """
    INSERT INTO django_rivet_message (actor_id, queue, body, status, idempotency_key, created_at, visible_at)
    VALUES (%s, %s, %s, 'queued', %s, {now}, {due})
    ON CONFLICT (actor_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id
"""

MAILBOX = """
    SELECT r.status, (
        SELECT count(*) FROM django_rivet_message m WHERE m.actor_id = r.actor_id AND m.status IN ('queued', 'open')
    )
    FROM django_rivet_workflowrun r WHERE r.actor_id = %s
"""

# Whoever waits asks one of these again and again: they lock nothing.
MESSAGE_ENDING = """
    SELECT m.status, m.response, r.status FROM django_rivet_message m
    JOIN django_rivet_workflowrun r ON r.actor_id = m.actor_id WHERE m.id = %s
"""

RUN_ENDING = "SELECT status, output, error FROM django_rivet_workflowrun WHERE actor_id = %s"

# FOR NO KEY UPDATE: an inserted message refers to the actor, and must not wait for its turn.
LOCK_TURN = "SELECT state FROM django_rivet_actor WHERE id = %s FOR NO KEY UPDATE"

READ_STATE = "SELECT state FROM django_rivet_actor WHERE id = %s"

SAVE_TURN = """
    UPDATE django_rivet_actor SET state = COALESCE(%s, state), event_seq = event_seq + %s
    WHERE id = %s AND (%s IS NULL OR state = %s) RETURNING event_seq
"""

ADD_EVENTS = "INSERT INTO django_rivet_event (actor_id, seq, name, payload, created_at) VALUES {rows}"

# What lies further in the future was written under a longer limit, or none: by a drive before a deploy.
# Somebody's lock on a row means that it changes just now: the next look finds it.
BRING_FORWARD = """
    UPDATE django_rivet_workflowrun SET due_at = {now} WHERE actor_id IN (
        SELECT r.actor_id FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE a.type = %s AND r.status = 'sleeping' AND r.holder IS NULL AND r.started_at <= {began}
          AND (r.due_at IS NULL OR r.due_at > {now})
        LIMIT %s {skip_locked}
    )
"""

# First come, first served: who has just had a slice, or still has messages from before it, stands behind the others.
DUE = f"""
    SELECT actor_id, type, epoch FROM (
        SELECT r.actor_id, a.type, r.epoch, r.due_at AS since
        FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE r.holder IS NULL AND r.due_at <= {{now}} AND r.status IN {ACTIVE}{{uncapped}}
        UNION ALL
        SELECT r.actor_id, a.type, r.epoch, r.lease_until
        FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE r.holder IS NOT NULL AND (r.lease_until <= {{now}} OR r.holder = %s) AND r.status IN {ACTIVE}{{uncapped}}
        UNION ALL
        SELECT r.actor_id, a.type, r.epoch, {{latest}}(m.visible_at, r.updated_at)
        FROM django_rivet_message m
        JOIN django_rivet_workflowrun r ON r.actor_id = m.actor_id JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE m.status = 'queued' AND m.visible_at <= {{now}} AND r.holder IS NULL AND r.waiting IS NOT NULL
          AND r.status IN {ACTIVE} AND (r.waiting = ',' OR {{position}}){{uncapped}}
    ) AS due
    GROUP BY actor_id, type, epoch ORDER BY min(since), actor_id LIMIT %s
"""  # noqa: S608 - no value is put into the text

# Of one type, those that became due first in front. A message behind others makes its actor due when that is let go.
LINE = f"""
    SELECT actor_id, epoch FROM (
        SELECT r.actor_id, r.epoch, r.due_at AS since
        FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE a.type = %s AND r.holder IS NULL AND r.due_at <= {{now}} AND r.status IN {ACTIVE}
        UNION ALL
        SELECT r.actor_id, r.epoch, r.lease_until
        FROM django_rivet_workflowrun r JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE r.holder IS NOT NULL AND (r.lease_until <= {{now}} OR r.holder = %s) AND r.status IN {ACTIVE}
          AND a.type = %s
        UNION ALL
        SELECT r.actor_id, r.epoch, CASE WHEN m.visible_at > r.updated_at THEN m.visible_at ELSE r.updated_at END
        FROM django_rivet_message m
        JOIN django_rivet_workflowrun r ON r.actor_id = m.actor_id JOIN django_rivet_actor a ON a.id = r.actor_id
        WHERE m.status = 'queued' AND m.visible_at <= {{now}} AND r.holder IS NULL AND r.waiting IS NOT NULL
          AND r.status IN {ACTIVE} AND (r.waiting = ',' OR {{position}}) AND a.type = %s
    ) AS due
    GROUP BY actor_id, epoch ORDER BY min(since), actor_id LIMIT %s
"""  # noqa: S608 - no value is put into the text
