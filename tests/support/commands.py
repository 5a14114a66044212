# SPDX-License-Identifier: Apache-2.0
"""Calls of the command, and what is expected of its answers."""

import jax
from typer.testing import CliRunner

from fpovi.cli import app


def call(*arguments):
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an integer count
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


def good(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refusal(*arguments):
    """What a command says to bad input: one line on standard error, nothing on standard output, exit code 2."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("fpovi: ")
    return result.stderr.removeprefix("fpovi: ").strip()
