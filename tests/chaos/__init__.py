"""Real workers under fire, and an independent ledger that is compared at the end: ``python -m tests.chaos``.

``plan`` draws from a seed what is done to whom and when; ``crew`` are the workers, ``fire`` does it to them while
``load`` gives them work. Bodies write into ``ledger``, a file that no transaction can undo, and rows into the
database. When the fire is over everything must settle, and ``verdict`` compares the two with what was asked for.

The plan is the same for the same seed. What it meets is not: which body runs at the moment of a kill is up to the
machine. So the verdict rests on facts that each run writes down itself, and never on how long anything took.
"""
