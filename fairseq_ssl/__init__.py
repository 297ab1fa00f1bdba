"""Semi-supervised sequence learning as a fairseq plug-in.

Everything it adds to fairseq, by the flag that selects it:

--arch
    shape_transformer, shape_transformer_tiny, shape_transformer_iwslt_de_en,
    shape_transformer_wmt_en_de, shape_transformer_big
        Transformers with shifted (SHAPE), absolute or relative positions.
    edit_tagger, edit_tagger_base, edit_tagger_large, edit_tagger_small
        Encoders that score edits of each token, all at once (PIE).
    pseudo_bidirectional_transformer, pseudo_bidirectional_transformer_big,
    pseudo_bidirectional_transformer_big_12, pseudo_bidirectional_transformer_small,
    pseudo_bidirectional_transformer_small_4
        Transformers whose decoder sees the source as its future, one stack for both (PBD).
    pointer_transformer, pointer_transformer_tiny
        Transformers that generate from a vocabulary or copy from their source (PoDA).
    bytenet, bytenet_simplified, bytenet_selu, bytenet_no_norm, bytenet_digits, bytenet_v2
        Dilated convolutions, one stack upon the other, in linear time (ByteNet).
    lstm_classifier, lstm_classifier_categories
        Experts: classifiers of texts, an LSTM and a perceptron (MEIN).
    encoder_classifier, bert_classifier
        Experts of the encoder of any translation model, or of a BERT in a folder (MEIN).
    recurrent_lm
        Language models that those start from, for fairseq's language_modeling (MEIN).
    imitators
        Convolutions that predict an expert's labels from windows of subwords (MEIN).
    expert_and_imitators
        An expert trained again with its imitators beside it (MEIN).
--task
    copying_translation
        fairseq's translation for models that copy, words outside the vocabulary too (PoDA).
    denoising_pretraining
        Rebuild text from what noise has left of it, noise that changes in each epoch (PoDA).
    edit_labeling
        Correct text by labeling its tokens with edits, in rounds (PIE).
    local_transduction
        fairseq's translation, which can decode with the source as a draft (--aggressive).
    reconstruction_translation
        Two models, one for each direction, from pairs and monolingual text together (the slides).
    semi_supervised_classification
        Classify texts with an expert, its imitators, or both: the steps of MEIN.
    tagged_translation
        fairseq's translation from genuine and synthetic data at a ratio, with tags before the
        sources of some; and with a noisy beam and fluency boost to make such data.
--criterion
    classification_cross_entropy
        Cross-entropy over the classes of texts (MEIN).
    adversarial_cross_entropy, virtual_adversarial_cross_entropy
        The same with embeddings disturbed where it hurts most, with labels or without (MEIN).
    imitation_cross_entropy
        What imitators lose by not saying what the expert says (MEIN).
    edit_cross_entropy
        Cross-entropy over edits, with a weight of its own for those that keep a token (PIE).
    reconstruction_loss
        Cross-entropy both ways, and how well text survives being translated there and back.
    denoising_cross_entropy
        Cross-entropy over the words that noise touched and a few of the others (PoDA).
--optimizer
    bert_adam
        Adam without weight decay of LayerNorm weights and biases, as BERT was trained (PIE).
    lazy_adam
        Adam that moves only those rows of a table of embeddings that a batch has touched (MEIN).

``--user-dir`` registers all of it. A program that imports this package before
fairseq calls :func:`register` itself; calling it again does no harm.
"""

from __future__ import annotations

import sys

from fairseq_ssl._version import __version__

__all__ = ["__version__", "register"]


def register() -> None:
    """Make all of this package known to fairseq, and its checkpoints safe to load."""
    from fairseq_ssl.plugin.registration import register_all

    register_all()


# The text tools must start without fairseq, so nothing is registered unless fairseq is there.
if "fairseq" in sys.modules:
    register()
