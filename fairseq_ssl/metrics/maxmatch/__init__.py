"""MaxMatch: the lattice of edits between two sentences, and the path that agrees best with gold."""
