"""Model architectures registered with fairseq.

`text_classifier` contains the base class of classifiers. `common` contains the base class of
decoders and registers named architectures.
"""
