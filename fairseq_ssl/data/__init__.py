"""Binarized data folders, and datasets for fairseq's tasks.

Denoising: `denoising_dataset` applies `id_noise` to ids, represented as `spans`. Edit labeling:
`edit_dataset`. Mixtures of genuine and synthetic data: `mixing`. Both translation directions:
`bitext_with_mono`. Text classification: `classification_folder`, `two_view_dataset`,
`teacher_labels`. Out-of-vocabulary words: `oov_dictionary`.
"""
