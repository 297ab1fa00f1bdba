"""Torch layers that models are built from, and what is computed of their outputs."""
