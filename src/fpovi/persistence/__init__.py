# SPDX-License-Identifier: Apache-2.0
"""Keep fitted models and checkpoints in files: arrays and JSON in one safetensors file, and no code.

A file holds a ``header`` (JSON types) and named ``arrays``. :func:`write_file` replaces a file as a whole or leaves it
as it was; :func:`read_file` gives back exactly what was written or raises a :class:`FileError` that says in one line
what is wrong. :func:`flatten_tree` and :func:`restore_tree` turn a pytree into named arrays and back.
"""

from fpovi.persistence.atomic import FileError, check_writable, write_bytes
from fpovi.persistence.files import read_file, read_versions, write_file
from fpovi.persistence.trees import flatten_tree, restore_tree

__all__ = [
    "FileError",
    "check_writable",
    "flatten_tree",
    "read_file",
    "read_versions",
    "restore_tree",
    "write_bytes",
    "write_file",
]
