"""Subword models of two kinds: trained on text, and used to cut it."""
