"""Semi-supervised sequence learning as a fairseq plug-in.

Names registered with fairseq, by the flag that selects them, with the method in parentheses:

--arch
    shape_transformer, shape_transformer_tiny, shape_transformer_iwslt_de_en,
    shape_transformer_wmt_en_de, shape_transformer_big
        Transformers with shifted (SHAPE), absolute or relative position embeddings.
    edit_tagger, edit_tagger_base, edit_tagger_large, edit_tagger_small
        BERT encoders that score the edits of all tokens in parallel (PIE).
    pseudo_bidirectional_transformer, pseudo_bidirectional_transformer_big,
    pseudo_bidirectional_transformer_big_12, pseudo_bidirectional_transformer_small,
    pseudo_bidirectional_transformer_small_4
        Transformers whose decoder uses the source as a substitute for future target tokens. The
        encoder and the decoder share one stack of layers (PBD).
    pointer_transformer, pointer_transformer_tiny
        Transformers with a pointer-generator output layer (PoDA).
    bytenet, bytenet_simplified, bytenet_selu, bytenet_no_norm, bytenet_digits, bytenet_v2
        Dilated convolutional networks that run in linear time, with the decoder stacked on the
        encoder (ByteNet).
    lstm_classifier
        An LSTM text classifier, for use as an expert (MEIN).
    encoder_classifier, bert_classifier
        Text classifiers with a BERT encoder or the encoder of a translation model (MEIN).
    recurrent_lm
        LSTM language models that initialize lstm_classifier, for the task language_modeling (MEIN).
    imitators
        Convolutional networks that predict an expert's labels from windows of subwords (MEIN).
    expert_and_imitators
        A mixture of an expert and its imitators, fine-tuned together (MEIN).
--task
    copying_translation
        fairseq's translation task for models that copy words, even out-of-vocabulary ones (PoDA).
    denoising_pretraining
        Reconstruction of text from noised text, with new noise in each epoch (PoDA).
    edit_labeling
        Iterative correction of text by labeling its tokens with edits (PIE).
    local_transduction
        fairseq's translation task with aggressive decoding, which uses the source as a draft
        (--aggressive).
    reconstruction_translation
        Translation in both directions, trained on parallel and monolingual text (ByteNet).
    semi_supervised_classification
        Text classification with an expert, imitators, or both (MEIN).
    tagged_translation
        fairseq's translation task with genuine and synthetic data at a fixed ratio, source tags,
        noisy beam search and fluency boost.
--criterion
    classification_cross_entropy
        Cross-entropy over text classes (MEIN).
    adversarial_cross_entropy, virtual_adversarial_cross_entropy
        Cross-entropy with adversarial perturbations of the embeddings, for labeled or unlabeled
        text (MEIN).
    imitation_cross_entropy
        Cross-entropy between the expert's and the imitators' distributions (MEIN).
    edit_cross_entropy
        Cross-entropy over edits, with a separate weight for tokens to keep (PIE).
    reconstruction_loss
        Cross-entropy of both directions, plus the loss of reconstructing monolingual text
        (ByteNet).
    denoising_cross_entropy
        Cross-entropy over the words changed by noise and a sample of the other words (PoDA).
--optimizer
    bert_adam
        Adam without weight decay for LayerNorm weights and biases, as in BERT (PIE).
    lazy_adam
        Adam that updates only the embedding rows used in a batch (MEIN).

``--user-dir`` registers all of these names. A Python program calls :func:`register` instead.
"""

from __future__ import annotations

import sys

from fairseq_ssl._version import __version__

__all__ = ["__version__", "register"]


def register() -> None:
    """Register the names listed in the module docstring, and patch fairseq.

    The patches fix bugs and prevent checkpoints from running code. Further calls have no effect.
    """
    global _is_registered
    if not _is_registered:
        from fairseq_ssl.plugin import register_all

        register_all()
        _is_registered = True


_is_registered = False


# `--user-dir` imports the package where fairseq is loaded. The text tools run without fairseq.
if "fairseq" in sys.modules:
    register()
