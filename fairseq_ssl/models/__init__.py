"""Model architectures registered with fairseq.

`text_classifier` contains the base class of classifiers. `common` contains the base classes of
configs and of decoders, and functions that register architectures and check options.
"""
