"""The tests, and the app `tests` whose models and actors they use."""
