"""What fairseq trains and decodes, wiring only: which data, which model, which search.

`right_to_left` and `validation_by_average` are parts of several tasks.
"""
