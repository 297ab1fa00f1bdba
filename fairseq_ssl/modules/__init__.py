"""PyTorch layers of the models, and functions for their inputs and outputs."""
