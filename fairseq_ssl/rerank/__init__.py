"""Weights for the scores of n-best candidates, and the majority of several systems; numpy only.

`candidates` holds scores and `statistics` what they aim at; `tuning` seeks weights by `grid` or
`line_search`, `selection` applies them. `post_ensemble` takes a majority by `word_vectors`.
"""
