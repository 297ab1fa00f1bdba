"""What trained models do, for the verbs that compare checkpoints.

`trained` holds a checkpoint and its data, `classification` a classifier; the others ask it:
`translation`, `swapped`, `gold_tokens`, `shift_similarity`, `edit_tuning`. `figures` draws.
"""
