"""Every kind of folder that hfxling writes, read by an older sentence-transformers: equal vectors, nothing printed.

    python tests/clients/check.py PYTHON

writes tiny folders of every method with today's environment (the one that runs this), reads them there and with PYTHON,
the interpreter of another environment, and compares. `make test-clients` makes that environment from constraints.txt.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import torch
from methods import needs_flag, open_doors, publish_all

TOLERANCE = 1e-6
VERSIONS = "import sentence_transformers as s, transformers as t; print(s.__version__, '+', t.__version__)"


def main() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        every = publish_all(Path(scratch))
        written = {name: published for name, published in every.items() if not needs_flag(Path(scratch) / name)}
        found = []
        for python in (sys.executable, os.path.abspath(sys.argv[1])):
            run = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True, cwd=scratch)
            print("sentence-transformers + transformers", run.stdout.strip())
            found.append(open_doors(Path(scratch), written, ["sentence-transformers"], python))
    worst = 0.0
    for name, published in written.items():
        today, old = (of[name]["sentence-transformers"] for of in found)
        expected = published.stock
        gaps = [
            float((torch.tensor(x[language]) - y).abs().max())
            for language, vectors in expected.items()
            for x, y in ((today, vectors), (old, vectors), (old, torch.tensor(today[language])))
        ]
        worst = max(worst, *gaps)
        print(f"{'ok' if max(gaps) < TOLERANCE else 'DIFFERS':8}{name:45}{max(gaps):.1e}")
    print(f"{len(written)} folders, largest difference {worst:.1e}, no warning.")
    print(f"{len(every) - len(written)} want trust_remote_code and today's clients.")
    return int(worst >= TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())
