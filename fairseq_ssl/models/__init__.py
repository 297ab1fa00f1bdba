"""Model architectures registered with fairseq.

Text classifiers share `text_classifier`, decoders share `decoder`. `architecture_defaults` sets the
options of named architectures.
"""
