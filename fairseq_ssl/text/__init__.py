"""Lines in, lines out: tools on text that need neither torch nor fairseq."""
