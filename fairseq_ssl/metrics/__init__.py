"""Scores of finished text; no torch, no fairseq."""
