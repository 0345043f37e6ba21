"""`make demo`: the shop with a web process and a worker, three orders to watch, one of them through a kill -9.

`story.py` is what happens, `evidence.py` what has to be true afterwards, `processes.py` who runs meanwhile.
"""
