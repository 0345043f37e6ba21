"""Makes things happen: takes an actor, walks its workflow, and writes down what came of it.

It knows workers, leases, time and Celery; it does not know HTTP, WebSockets or the admin.
Start with ``drive`` (one actor, one lease, one pass), then ``host`` (what the engine asks for) and ``handles``
(what users hold).
"""
