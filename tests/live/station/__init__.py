"""An app whose actors are known to the servers and workers that the live tests start."""
