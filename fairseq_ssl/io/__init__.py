"""Text files, JSON, atomic and resumable outputs, blocks of lines, executors and jobs."""
