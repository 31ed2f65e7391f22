"""What several tests of sentences need, made once."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import hfxling

COMMAND = "import os; print(os.getpid(), flush=True); from hfxling.cli import main; main()"


@pytest.fixture
def killed(warm_python):
    """Starts a command, kills it when something is the case, and waits for its end."""

    def kill_when(is_so, *words: str) -> None:
        process = subprocess.Popen([warm_python, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True)
        number = int(process.stdout.readline())
        while not is_so():
            assert process.poll() is None
            time.sleep(0.002)
        os.kill(number, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was done already"

    return kill_when


@pytest.fixture(scope="session")
def zh_vi_pairs() -> list[tuple[str, str]]:
    """Shuffled pairs of the sample, of which no side stands in two."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = list(dict.fromkeys(zip(rows["source"], rows["target"])))
    pairs = list({zh: (zh, vi) for zh, vi in {vi: (zh, vi) for zh, vi in pairs}.values()}.values())
    random.Random(0).shuffle(pairs)
    return pairs


@pytest.fixture(scope="session")
def zh_vi_links(tmp_path_factory) -> Path:
    """A lexical model of Chinese and Vietnamese text of the sample, as a folder that has static vectors, too."""
    rows = hfxling.load_parallel("sample", "zh", "vi")[:800]
    folder = tmp_path_factory.mktemp("zh_vi_links") / "zh-vi"
    links = hfxling.fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=32, progress=False)
    hfxling.save_lexical(links, folder)
    return folder
