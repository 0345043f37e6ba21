"""The live face: what an actor broadcasts, over a WebSocket, to whoever may see it.

``consumer`` is one connection; ``access`` decides who is let in, ``frames`` is the protocol, ``feed`` gives one client
its events in order, once each. ``lookout`` notices for all connections of the process that there is something new,
with the help of ``ear``, which listens to the channel layer. Only ``feed`` and ``stored_events`` say what is sent;
everything that wakes them may be lost, doubled or late.
"""
