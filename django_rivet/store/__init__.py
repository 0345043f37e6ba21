"""The only code that writes the tables.

What is flushed happened once; what is not flushed did not happen.
It knows SQL, transactions and the database's clock; it does not know what a workflow is about to do, nor Celery.
Start with ``journal`` (one commit of a drive) and ``runs`` (who may drive); the hot SQL stands in ``statements``.
"""
