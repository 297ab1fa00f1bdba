"""Tasks registered with fairseq: they choose the data, the model and the search.

`translation_mixins` has parts of several translation tasks.
"""
