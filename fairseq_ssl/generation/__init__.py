"""Generators that the tasks return from `build_generator`.

For edit taggers, `edit_generator` contains the generator, `torch_engine` runs the models, and
`tagger_export` exports models to ONNX. `copying_search` (aggressive decoding, pointer-generator)
and `noisy_beam` extend fairseq's search. `fluency_boost` filters n-best lists. To add a penalty to
beam search, subclass fairseq's `BeamSearch`, as in `noisy_beam`.
"""
