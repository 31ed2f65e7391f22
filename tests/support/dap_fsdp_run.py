"""The DAP recipe under recipes/accelerate_configs/fsdp.yaml on CPU processes; run by test_train.py (torchrun).

Accelerate shards weights on accelerators only. Here it takes the processes, which talk by gloo, for such; everything
else is as `accelerate launch --config_file recipes/accelerate_configs/fsdp.yaml recipes/dap.py ...` has it.

python dap_fsdp_run.py [PRECISION [arguments of recipes/dap.py] --]...     PRECISION: no, or bf16 as in the file

runs the recipe as often as there are "--", and prints NEXT after each.
"""

import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_multi_gpu_env
from processes import leave

from recipes import dap

CONFIG = Path(__file__).resolve().parents[2] / "recipes" / "accelerate_configs" / "fsdp.yaml"


def launch_environment(precision: str) -> dict[str, str]:
    """The environment variables that `accelerate launch` makes of the file."""
    words = ["--config_file", str(CONFIG), "--mixed_precision", precision, "recipes/dap.py"]
    args, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    return {k: v for k, v in prepare_multi_gpu_env(args).items() if k.startswith(("ACCELERATE_", "FSDP_"))}


def main() -> None:
    torch.set_num_threads(1)
    started = PartialState.__init__

    def start(self, *args, **kwargs):
        started(self, *args, **kwargs)
        self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = start
    words = sys.argv[1:]
    while words:
        end = words.index("--")
        precision, *arguments = words[:end]
        os.environ.update(launch_environment(precision))
        AcceleratorState._reset_state()
        dap.main(arguments)
        sys.stdout.write("NEXT\n")
        words = words[end + 1 :]


if __name__ == "__main__":
    main()
    leave()
