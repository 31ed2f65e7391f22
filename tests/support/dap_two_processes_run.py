"""What two processes do together, once they are there; run by test_train.py.

python dap_two_processes_run.py ENCODER OUTPUT OUTPUT_IN_CHUNKS
"""

import sys

import dap_sharded_run
import dap_tiny_run
from processes import leave

if __name__ == "__main__":
    encoder, whole, chunked = sys.argv[1:]
    dap_tiny_run.train([encoder, whole, "--steps", "3", "--dropout", "0"])
    dap_tiny_run.train([encoder, chunked, "--steps", "3", "--dropout", "0", "--chunk_size", "2"])
    dap_sharded_run.main()
    leave()
