"""Weights for the scores of n-best candidates, and the majority of several systems; numpy only."""
