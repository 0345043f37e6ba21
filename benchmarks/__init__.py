"""Timings, as ratios measured in one run. They are no tests: machines differ, ratios less so."""
