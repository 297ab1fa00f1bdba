"""MaxMatch (M2): lattice of edits between two sentences, and the path with the most gold edits."""
