"""Torch layers that models are built from."""
