"""Opens repositories of the Hub as their readers do, all in one process; prints vectors by repository and door as JSON.

    python hub_doors.py JOBS.json [HFXLING]

A job has repository, revision, class, texts by language ("" where none is told) with the subfolder of its tokenizer,
prompt and whether the folder wants the flag. Without HFXLING importing hfxling is an error; with it, the folder of the
package, its classes load the repository.
"""

import json
import sys
from pathlib import Path

import torch

HFXLING = sys.argv[2] if len(sys.argv) > 2 else None
if HFXLING is None:
    sys.modules["hfxling"] = None
else:
    sys.path.insert(0, HFXLING)
    import hfxling

from sentence_transformers import SentenceTransformer  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402


def stock(job: dict) -> dict:
    """By sentence-transformers alone; with the flag where a folder has a module of its own."""
    model = SentenceTransformer(
        job["repo"], revision=job["revision"], device="cpu", trust_remote_code=job["wants_flag"]
    )
    return {lang: model.encode(texts, **({"task": lang} if lang else {})) for lang, texts in job["texts"].items()}


def own(job: dict) -> dict:
    """By the method's class: that of the repository, or of the package where it is there."""
    options = {"revision": job["revision"]}
    if HFXLING:
        model = getattr(hfxling, job["class"]).from_pretrained(job["repo"], **options)
    else:
        model = AutoModel.from_pretrained(job["repo"], trust_remote_code=True, **options)
        assert type(model).__module__.startswith("transformers_modules")
    found = {}
    for lang, texts in job["texts"].items():
        tokenizer = AutoTokenizer.from_pretrained(job["repo"], subfolder=job["tokenizers"][lang], **options)
        texts = [(job["prompt"] or "") + text for text in texts]
        batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            told = {"language": lang} if lang else {}
            output = model(batch["input_ids"], batch["attention_mask"], **told)
        found[lang] = output.sentence_embedding.numpy()
    return found


found = {}
for name, job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
    doors = {"own": own(job)} | ({} if HFXLING else {"stock": stock(job)})
    found[name] = {door: {lang: of.tolist() for lang, of in langs.items()} for door, langs in doors.items()}
print(json.dumps(found))  # noqa: T201
