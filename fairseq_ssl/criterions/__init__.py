"""Training losses registered with fairseq. `criterion` has their base class."""
