"""What the sentences of `hfxling/data/sample` that nobody wrote by hand come from, and what writes them."""
