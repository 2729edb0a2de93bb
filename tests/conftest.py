"""Test-wide settings: one torch thread per worker, no hub, deterministic hypothesis."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["NUMBA_NUM_THREADS"] = "1"

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("headscope", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("headscope")
