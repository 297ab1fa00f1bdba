"""fairseq's checkpoints as files: read safely, selected, averaged, converted."""
