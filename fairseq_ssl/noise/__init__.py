"""Noise for clean text: each kind of the papers, made for many lines at a time.

`kinds` lists them by name, `block` is what each takes and gives, `draws` its random numbers;
`corpus` noises the bytes of a file, and `data.id_noise` the ids of a training.
"""
