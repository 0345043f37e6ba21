"""What is an actor, before any row exists?

This floor reads the classes that users write: their state, actions, queues, events and workflow.
It knows declared types and the names of things; it knows no table, no transaction and no worker.
What needs those is asked of a port: ``directory`` for other actors, ``turn`` for the state of this one.

Start with ``actor`` (what users subclass) and ``declarations`` (what stands in its body), then
``define`` and ``definition`` (what is made of both). ``validation`` is the only door to pydantic.
"""
