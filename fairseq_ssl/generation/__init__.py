"""Generators, which tasks return from `build_generator`.

Edit taggers: `edit_rounds` has the generator, `edit_probabilities` calls the models, `edit_choice`
chooses and applies edits, `edit_corrector` is the Python interface, `tagger_export` exports models
to ONNX, and `onnx_tagger` loads them. Searches besides fairseq's:
`copying_search` (aggressive decoding, pointer-generator) and `noisy_beam`. `fluency_boost` filters
n-best lists. A new penalty is a subclass of fairseq's `BeamSearch`, as in `noisy_beam`.
"""
