"""The engine's behaviour, case by case: each test bears the ID of its case."""
