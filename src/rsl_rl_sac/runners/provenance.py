# SPDX-License-Identifier: BSD-3-Clause

"""Where a run comes from: versions, command and state of the code at each start."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

import git  # rsl_rl's own logger stands on it

import rsl_rl_sac
from rsl_rl_sac.utils.checkpoint import write_text_atomically
from rsl_rl_sac.utils.versions import installed_versions

PROVENANCE_NAME = "provenance.json"
"""File in the folder of a run: a list with an entry for every start."""

DIFF_NAME = "git.diff"
"""File in the folder of a run: changes of the code since its commit, at the last start."""

_ENTRY_KEYS = {"started", "versions", "git"}
"""What an entry must have to be read."""

LARGEST_DIFF = 200_000
"""Characters after which the diff is cut off."""


def record_start(folder: Path) -> None:
    """Note versions, command line and state of the code, beside those of earlier starts."""
    state, diff = code_state(Path(rsl_rl_sac.__file__))
    entry = {
        "started": datetime.datetime.now().isoformat(timespec="seconds"),
        "command": sys.argv,
        "versions": installed_versions(),
        "git": state,
    }
    write_text_atomically(json.dumps([*read_provenance(folder), entry], indent=1), folder / PROVENANCE_NAME)
    if diff:
        write_text_atomically(diff, folder / DIFF_NAME)


def read_provenance(folder: Path) -> list[dict]:
    """Return the entries of all starts, oldest first; none if the file is missing or damaged, as it is only a note."""
    try:
        content = json.loads((folder / PROVENANCE_NAME).read_text())
    except (OSError, ValueError):
        return []
    entries = content if isinstance(content, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and entry.keys() >= _ENTRY_KEYS]


def code_state(file: Path) -> tuple[dict | None, str]:
    """Return commit and dirty flag of the repository that a file belongs to, and its diff; None and nothing without.

    Args:
        file: File of the code. A repository that does not track it, one around a virtual environment say, does not
            count.
    """
    try:
        repository = git.Repo(file, search_parent_directories=True)
        if not repository.git.ls_files(str(file)):
            return None, ""
        commit = repository.head.commit.hexsha
        diff = repository.git.diff("HEAD")
    except (git.exc.GitError, ValueError, OSError):  # no repository, no commit yet, no git
        return None, ""
    if len(diff) > LARGEST_DIFF:
        diff = f"{diff[:LARGEST_DIFF]}\n... {len(diff) - LARGEST_DIFF} more characters\n"
    return {"commit": commit, "dirty": bool(diff)}, diff
