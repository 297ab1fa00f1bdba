"""PyTorch layers that the models consist of, and computations on their outputs."""
