# SPDX-License-Identifier: Apache-2.0
"""A progress bar on standard error, shown only where that is a terminal."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(quiet: bool = False, time_left: bool = True) -> Progress:
    """Make a bar with counts, elapsed time, time left and the field ``note`` of each task; it vanishes at the end.

    Args:
        quiet: show nothing.
        time_left: show the time left at the pace of the last half minute; tasks with few, long steps know better.
    """
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        *([TimeRemainingColumn()] if time_left else []),
        TextColumn("{task.fields[note]}"),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
