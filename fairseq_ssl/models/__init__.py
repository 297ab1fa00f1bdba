"""Model architectures registered with fairseq.

`text_classifier` has the base class of classifiers. `common` has the base class of decoders and
sets the options of named architectures.
"""
