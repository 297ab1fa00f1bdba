"""How models without a beam search write their output."""
