"""A pair of sentences as edits of the source's tokens, and back (PIE, section 2).

`diff` finds what differs, `extraction` gives it labels of the `dictionary`, `application` carries
labels out; `corpus` does all of it for blocks of files, and `coverage` counts.
"""
