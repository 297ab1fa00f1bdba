"""Files that hold weights: read without running their code, selected, averaged, converted.

Of fairseq: `reading`, `training_data` (which languages and dictionaries), `selection`, `averaging`,
`conversion` and `ctranslate2` (to other forms), `directions` (one model of two). For a new model
to start from: `sides`, `encoders`, `recurrent`, by words' names in `symbols`. Of BERT and RoBERTa:
`hugging_face` reads their files, `bert` gives the weights our names, and `pretrained` has the
package transformers load whole models.
"""
