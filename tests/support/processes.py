"""How a script of several gloo processes ends."""

import os
import sys

import torch.distributed as dist


def leave() -> None:
    """End this process now, with status 0, when all have come here.

    gloo's threads outlive the process group, and an interpreter that takes its time to shut down now and then dies of
    them.
    """
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
