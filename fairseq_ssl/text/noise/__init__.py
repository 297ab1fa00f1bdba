"""Noise for clean text: each kind of the papers, made for many lines at a time."""
