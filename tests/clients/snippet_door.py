"""JOBS.json: runs snippets of cards, by name, as their readers do; prints the vectors that they make as JSON.

By name and variable, of the variables in which the snippets keep vectors.
"""

import json
import sys
from pathlib import Path

import numpy as np

VECTORS = ("query", "documents", "vectors")

found = {}
for name, snippet in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
    names = {}
    exec(snippet, names)
    found[name] = {key: np.atleast_2d(names[key]).tolist() for key in VECTORS if key in names}
print(json.dumps(found))
