"""Architectures, one a file."""
