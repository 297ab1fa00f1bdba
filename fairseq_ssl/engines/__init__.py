"""How work is spread: over the processes of one machine, or over a Ray cluster."""
