"""The REST face: actors over HTTP, for programs and browsers.

It knows handles, the registry and how to read the tables; it decides nothing that a handle would not decide. Start
with ``views``. ``permissions`` says who is let in, ``errors`` what a client learns of a failure, ``values`` how
values look in JSON. REST framework is imported here and nowhere else.
"""
