"""Tasks registered with fairseq: loading of data, building of models and generators.

`translation_mixins` has the mixins of translation tasks.
"""
