"""Generators, which tasks return from `build_generator`.

Edit taggers: `edit_generator` is the generator, `torch_engine` runs the models, and
`tagger_export` exports models to ONNX. Searches besides fairseq's:
`copying_search` (aggressive decoding, pointer-generator) and `noisy_beam`. `fluency_boost` filters
n-best lists. A new penalty is a subclass of fairseq's `BeamSearch`, as in `noisy_beam`.
"""
