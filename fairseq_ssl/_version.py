"""The version of the package, readable without registering anything."""

__version__ = "0.1.0"
