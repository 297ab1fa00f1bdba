"""Training losses registered with fairseq. `criterion` contains their base class."""
