"""The live face: an actor over a WebSocket. What it broadcasts, to whoever may see it, and its actions and queues.

``consumer`` is one connection; ``access`` decides who is let in, by what ``visitors`` finds out from permission
classes, and ``hook`` asks the actor; ``frames`` is the protocol. ``calls`` makes actions and messages of frames, which
stand in a ``line`` and run in ``threads``; ``feed`` gives one client its events in order, once each. ``lookout``
notices for all connections of the process that there is something new, with the help of ``ear``, which listens to the
channel layer. Only ``feed`` and ``stored_events`` say what is sent; everything that wakes them may be lost, doubled or
late.
"""
