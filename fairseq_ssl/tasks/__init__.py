"""Tasks registered with fairseq, which load data and build models and generators.

`translation_mixins` contains mixins for translation tasks.
"""
