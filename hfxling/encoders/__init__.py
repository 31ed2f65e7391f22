"""Texts to vectors: one protocol for whatever makes them.

`load_encoder` gives what the verbs ask for. protocol.py says what an encoder is; dense.py holds any model of
sentence-transformers, sparse.py sparse models and links, fused.py both together, stored.py vectors in files; frozen.py
reads layers and words off a transformer encoder; prompts.py knows what a model wants to be told, identity.py which
model it is.
"""
