# SPDX-License-Identifier: BSD-3-Clause

"""The folder of the run that a user means, for flags of ``train``, which does not need the suite for other worlds."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rsl_rl_sac.envs.worlds import WORLDS, find_world
from rsl_rl_sac.utils.checkpoint import newest_run
from rsl_rl_sac.utils.errors import ConfigError


def is_task(word: str) -> bool:
    """Return whether a word of a command line looks like the name of a task."""
    return word.startswith("Velocity-") or (":" in word and word.partition(":")[0] in WORLDS)


def run_folder(name: str | Path, logs: str | Path = "logs") -> Path:
    """Return the folder of a run: as it is named, or the newest run of a task or in a folder of runs.

    What means no run is returned as it is, for whoever asks to say what is missing there.

    Args:
        name: Folder of a run, task, or folder of runs.
        logs: Folder of all runs, in which a task's runs are looked for.

    Raises:
        ConfigError: If the name is that of a task which does not exist, or which has no run.
    """
    path = Path(name)
    if path.exists() or not is_task(str(name)):
        return newest_run(path) or path
    find_world(str(name))  # a typo is answered with the nearest names
    folder = Path(logs) / str(name).replace(":", "-")
    run = newest_run(folder)
    if run is None:
        raise ConfigError(f"There is no run of {name} to go on with in '{folder}'. Without --resume a new one starts.")
    return run


def with_run_folder(arguments: Sequence[str], flag: str, logs: str | Path = "logs") -> list[str]:
    """Return a command line in which the value of a flag is the folder of the run that it means.

    Once for the whole command: processes that are started later shall not find another run to be the newest.

    Args:
        arguments: Command line.
        flag: Flag whose value is a run; a command line without it is returned as it is.
        logs: Folder of all runs.
    """
    found = list(arguments)
    for place, argument in enumerate(found):
        if argument.startswith(f"{flag}="):
            found[place] = f"{flag}={run_folder(argument.partition('=')[2], logs)}"
        elif argument == flag and place + 1 < len(found):
            found[place + 1] = str(run_folder(found[place + 1], logs))
    return found


@contextlib.contextmanager
def claimed_folder(folder: Path) -> Iterator[Path]:
    """Make a folder that no other process has, numbered if need be, as runs that start in the same second need.

    If the run fails before it has written anything, nothing is left behind.
    """
    name, missing = folder.name, [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)  # by itself: a parent that is a broken link exists, too
    for number in itertools.count(2):
        try:
            folder.mkdir()
            break
        except FileExistsError:
            folder = folder.with_name(f"{name}_{number}")
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # something is in it
            for path in (folder, *missing):
                path.rmdir()
        raise
