"""PyTorch layers of the models, and computations on their outputs."""
