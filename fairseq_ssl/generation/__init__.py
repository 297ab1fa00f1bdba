"""Generators returned by the tasks' `build_generator`.

Edit taggers: `edit_rounds` has the generator, `edit_probabilities` calls the models, `edit_choice`
chooses and applies edits, `edit_corrector` is the Python interface. Beside fairseq's beam search:
`aggressive_decoding`, `copying_search` and `noisy_beam`. `fluency_boost` filters n-best lists.
"""
