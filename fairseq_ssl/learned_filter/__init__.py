"""A filter of sentence pairs that learns from clean ones: features, a linear SVM, the best r%."""
