"""What the benchmarks share: the most memory that this process ever held."""

import re
import resource
from pathlib import Path


def peak_mib() -> float:
    """High-water mark of the resident memory in MiB, libraries and parameters included.

    From /proc where there is one: the other counter of a fresh process begins with its parent's peak.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text()).group(1)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
