"""Binarized data folders, and datasets for the package's fairseq tasks.

- Folders written by fairseq-preprocess: `binarized`.
- Denoising: `id_noise`.
- Edit labeling: `edit_preparation` and `edit_dataset`.
- Mixtures of genuine and synthetic data: `mixing`.
- Both translation directions: `bitext_with_mono`. Right-to-left targets and bounds on
  target lengths: `dataset_sides`.
- Text classification: `classification_preparation`, `two_view_dataset` and `teacher_labels`.
- Out-of-vocabulary words: `oov_dictionary`. Batches of ids: `id_batches`.
"""
