"""Losses, one a file, registered with fairseq; what they share is in `criterion`."""
