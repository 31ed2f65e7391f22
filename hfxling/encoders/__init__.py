"""Texts to vectors: one protocol for everything that makes them.

`load_encoder` returns the encoder that a verb's options name. protocol.py defines what an encoder is; dense.py has any
model of sentence-transformers, sparse.py sparse models and links, fused.py both together, stored.py vectors in files;
frozen.py takes vectors of layers and words from a transformer encoder; prompts.py knows which prompt a model expects,
identity.py which model it is.
"""
