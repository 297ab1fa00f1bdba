"""Architectures, one a file, registered with fairseq.

Classifiers share `text_classifier`, `pooled_classifier`, `recurrent_options` and
`classification_task`; `architecture_defaults` fills in the sizes of named architectures.
"""
