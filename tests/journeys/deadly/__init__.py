"""An app that only the workers of one journey have: its orders kill whoever works on them."""
