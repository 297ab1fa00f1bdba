"""What to train on and how, registered with fairseq."""
