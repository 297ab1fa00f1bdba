"""Filters for corpora: what each rule says of a line or a pair, and who is to go."""
