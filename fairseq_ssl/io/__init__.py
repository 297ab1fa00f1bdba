"""Files: text, JSON, atomic and resumable outputs, blocks of lines, and parallel work on blocks."""
