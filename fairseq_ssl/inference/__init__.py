"""Who does the work of long commands, and what is done with a block of it.

Spreading: `engine` is the contract, `local` processes of this machine, `ray` a cluster. Decoding:
`decoding` is the contract, `fairseq_decoder` and `ctranslate2_decoder` decode, `translation` does
a block of text. Scoring: `scoring` is the contract, `translation_scorer` and
`language_model_scorers` score, `nbest_scoring` does a block of a list.
"""
