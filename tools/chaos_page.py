"""What the page of `hfxling demo` is asked: a table of `chaos.py`. One page for all; it must go on answering."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from chaos_runs import ROOT

from hfxling.data.sample import sample_texts

ANSWERED, REFUSED = "answered", "refused"
TIMEOUT = 60  # seconds of an answer
_ZH, _VI = (sample_texts(lang, "test")[:20] for lang in ("zh", "vi"))
_SOUND = (_ZH[3], "\n".join(_VI), "zh to vi")
_LONG = "字" * 2_001
# (question, part of the page, what is sent, how that must end): of texts without segments the page knows, of too much
# of everything, of what is no text and no direction.
QUESTIONS = [
    ("sound", "nearest", _SOUND, ANSWERED),
    ("one candidate that is unknown", "nearest", ("qqqq", "zzzz", "zh to vi"), ANSWERED),
    ("nothing known", "nearest", ("\u200d123", "\n".join(["☃"] * 5), "zh to vi"), ANSWERED),
    ("no text", "nearest", ("", "", "zh to vi"), REFUSED),
    ("white space", "nearest", (" \n\t\n", "\u3000", "zh to vi"), REFUSED),
    ("too long a line", "nearest", (_LONG, _VI[0], "zh to vi"), REFUSED),
    ("too many lines", "nearest", (_ZH[0], "a\n" * 1_001, "zh to vi"), REFUSED),
    ("too many letters", "nearest", (_ZH[0], ("a" * 1_900 + "\n") * 200, "zh to vi"), REFUSED),
    ("no such direction", "nearest", (_ZH[0], _VI[0], "zh to ../../ESC"), REFUSED),
    ("a number", "nearest", (3, None, "zh to vi"), REFUSED),
    ("a list", "nearest", ([["a"]], {"a": 1}, "zh to vi"), ANSWERED),  # as the text that it is in Python
    ("too little", "nearest", ("a",), REFUSED),
    ("markup", "links", ("<script>alert(1)</script> 今天下雨。", "<b>mưa</b>", "zh to vi"), ANSWERED),
    ("half a letter", "links", ("今天\ud83d下雨。", "mưa", "zh to vi"), REFUSED),
    ("long for links", "links", ("今" * 401, "mưa", "zh to vi"), REFUSED),
    ("one letter", "links", ("今", "m", "zh to vi"), ANSWERED),
    ("pairs of one sentence", "mine", (_ZH[0], _VI[0], "zh to vi"), ANSWERED),
    ("the same text twice", "mine", ("\n".join(_ZH), "\n".join(_ZH), "zh to vi"), ANSWERED),
    ("pairs", "mine", ("\n".join(_ZH), "\n".join(_VI), "zh to vi"), ANSWERED),
    ("unequal numbers", "quality", ("\n".join(_ZH), _VI[0], "zh to vi"), REFUSED),
    ("scores of the unknown", "quality", ("qqqq", "zzzz", "zh to vi"), ANSWERED),
]


@contextmanager
def shown(model: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """The address of a page that runs, and its process."""
    (folder / "temporary").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "temporary")}
    words = [sys.executable, "-m", "hfxling", "demo", "--lexical", str(model), "--port", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        while not _is_up(address):
            if process.poll() is not None:
                raise ValueError(f"the page has ended: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.5)
        yield address, process
    finally:
        process.kill()
        process.wait()


def _is_up(address: str) -> bool:
    try:
        return urlopen(address, timeout=5).status == 200
    except OSError:
        return False


def ask(address: str, part: str, data: tuple) -> str | None:
    """How a question ended; None where there was no answer in time."""
    try:
        body = json.dumps({"data": list(data)}).encode()
        request = Request(f"{address}/gradio_api/call/{part}", body, {"Content-Type": "application/json"})
        event = json.loads(urlopen(request, timeout=TIMEOUT).read())["event_id"]
        answer = urlopen(f"{address}/gradio_api/call/{part}/{event}", timeout=TIMEOUT).read().decode()
    except TimeoutError:
        return None
    except (OSError, HTTPException, ValueError):
        return REFUSED
    events = re.findall(r"^event: (\w+)", answer, re.M)
    return ANSWERED if "complete" in events else REFUSED


def asked(model: Path, folder: Path, wanted: str) -> Counter:
    """All questions whose names match, then SIGTERM, after which nothing is left."""
    questions = [row for row in QUESTIONS if re.search(wanted, f"demo page: {row[0]}")]
    counts: Counter = Counter()
    if not questions:
        return counts
    with shown(model, folder) as (address, process):
        for name, part, data, ending in questions:
            counts["cases"] += 1
            found = ask(address, part, data)
            fault = None
            if found is None:
                fault = "endless"
            elif found != ending:
                fault = "silent" if found == ANSWERED else "unclear"
            elif ask(address, "nearest", _SOUND) != ANSWERED:
                fault = "tracebacks"
            if fault:
                counts[fault] += 1
                print(f"{fault}: demo page: {name}: {found}", flush=True)
        process.send_signal(signal.SIGTERM)
        status = process.wait(30)
    counts["cases"] += 1
    said = (folder / "log").read_text(errors="replace")
    left = [path.name for path in (folder / "temporary").iterdir() if "torch" not in path.name]
    of_ours = "spaces/demo/app.py" in said  # what Gradio itself refuses, it tells its log in a traceback of its own
    fault = "tracebacks" if of_ours or status not in (143, 0) else "half_written" if left else None
    if fault:
        counts[fault] += 1
        print(f"{fault}: demo page: SIGTERM: {status} {left} {said[-500:]!r}", flush=True)
    return counts
