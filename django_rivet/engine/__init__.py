"""Given a history, what happens next?

The ground floor.
It knows the words a workflow calls and the records they leave; it knows no database, no clock, no Celery and no Django.
A verb does not act, it answers: replay this value, perform this body, note this record, or wait.
So replay correctness can be read here, and tested in milliseconds.

Start with ``entries`` (the nouns), then ``verbs/step`` (a verb), ``context`` (the words), ``runner`` (one pass).
What the engine needs from the floors above is written down in ``ports``.
"""
