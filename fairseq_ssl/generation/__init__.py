"""How models write their output: what the tasks' `build_generator` returns.

Edits in rounds: `edit_rounds`, made by `edit_decoding` of its options; each round asks
`edit_probabilities`, then `edit_choice` among `possible_edits`, and `edited_ids` makes them.
Searches beside fairseq's: `aggressive_decoding`, `copying_search`, `noisy_beam`; `fluency_boost`
keeps some of what a search found.
"""
