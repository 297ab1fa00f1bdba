"""Losses registered with fairseq. `criterion` has their base class."""
