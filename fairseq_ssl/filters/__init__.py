"""Filters for corpora: what each rule says of a line or a pair, and who is to go.

`kinds` lists them by name, `filter` is what each does; `corpus` puts blocks of files through them.
"""
