"""A pair of sentences as edits of the source's tokens, and back (PIE, section 2)."""
