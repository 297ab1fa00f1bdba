"""The plug-in: what is registered with fairseq, and patches of fairseq."""
