"""One room per verb: each is a function of (record, arguments, now) that answers with a ``Decision``."""
