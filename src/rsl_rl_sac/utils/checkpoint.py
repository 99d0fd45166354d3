# SPDX-License-Identifier: BSD-3-Clause

"""Files that are either whole or absent, and that run no code when loaded."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import pickle
import re
import tempfile
import zipfile
from collections.abc import Callable
from typing import BinaryIO

import torch

from rsl_rl_sac.utils.config_base import one_line
from rsl_rl_sac.utils.errors import CheckpointError

_MODEL_NAME = re.compile(r"model_(\d+)\.pt")


def save_atomically(content: object, path: str | os.PathLike) -> None:
    """Write a file so that a crash at any moment leaves the old file or the new one, whole.

    The content goes to a temporary file in the same folder, is flushed to the disk, and only then takes the name.

    Raises:
        CheckpointError: If the content could not be loaded again.
    """
    check_plain(content)
    _write_atomically(lambda file: _save(content, file), path)


def _save(content: object, file: BinaryIO) -> None:
    try:
        torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):  # torch hides what the disk said behind an error of its own
            raise error.__context__ from None
        raise


def write_text_atomically(text: str, path: str | os.PathLike) -> None:
    """Write a text file so that a crash at any moment leaves the old file or the new one, whole.

    Bytes that were no text when they were read are what they were.
    """
    _write_atomically(lambda file: file.write(text.encode(errors="surrogateescape")), path)


def write_bytes_atomically(content: bytes, path: str | os.PathLike) -> None:
    """Write a binary file so that a crash at any moment leaves the old file or the new one, whole."""
    _write_atomically(lambda file: file.write(content), path)


def _write_atomically(write: Callable[[BinaryIO], object], path: str | os.PathLike) -> None:
    path = pathlib.Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _fsync_folder(path.parent)


def check_network(saved: dict, own: dict) -> None:
    """Raise an error if the saved parameters of a network have other names or shapes than its own."""
    for name in [*own, *(name for name in saved if name not in own)]:
        shapes = [tuple(values[name].shape) if name in values else "none" for values in (saved, own)]
        if shapes[0] != shapes[1]:
            raise CheckpointError(
                f"The checkpoint does not fit the networks of this run: the shape of '{name}' is {shapes[0]} there and"
                f" {shapes[1]} here."
            )


def check_plain(content: object, where: str = "") -> None:
    """Raise an error that names the first value which :func:`load_safely` would refuse later."""
    if isinstance(content, dict):
        for key, value in content.items():
            check_plain(value, f"{where}/{key}")
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            check_plain(value, f"{where}/{index}")
    elif not (content is None or type(content) in (bool, int, float, str) or isinstance(content, torch.Tensor)):
        kind = f"{type(content).__module__}.{type(content).__name__}"
        raise CheckpointError(
            f"A checkpoint holds tensors, numbers, strings, lists and dictionaries only, but '{where}' is a {kind}."
            " Convert it, for example with torch.as_tensor()."
        )


def check_archive(path: str | os.PathLike) -> None:
    """Raise an error if a file of torch's, checkpoint or TorchScript, is damaged: torch itself verifies no checksum.

    Raises:
        CheckpointError: If it is.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        reason = f"the checksum of {damaged} is wrong" if damaged is not None else ""
    except Exception as error:  # each byte of an archive means something else, and so does each way to fail on it
        reason = one_line(str(error)) or type(error).__name__
    if reason:
        path = pathlib.Path(path)
        raise CheckpointError(f"'{path}' is damaged or not a checkpoint ({reason}).{_alternative(path)}")


def is_damaged(path: str | os.PathLike) -> bool:
    """Return whether :func:`check_archive` refuses a file."""
    try:
        check_archive(path)
    except CheckpointError:
        return True
    return False


def load_safely(path: str | os.PathLike, map_location: str | torch.device | None = None) -> dict:
    """Load a dictionary that holds only tensors and plain values.

    Raises:
        CheckpointError: If the file is missing, damaged (its checksums are verified), or holds anything else.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint '{path}'.{_alternative(path)}")
    check_archive(path)
    try:
        content = torch.load(path, map_location=map_location, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"'{path}' was refused: it holds something other than tensors and plain values, which could run code."
        ) from error
    except Exception as error:  # as above
        reason = one_line(str(error)) or type(error).__name__
        raise CheckpointError(f"'{path}' is damaged or not a checkpoint ({reason}).{_alternative(path)}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"'{path}' is not a checkpoint: it holds a {type(content).__name__}.")
    return content


def check_parts(state: dict, kinds: dict[str, type], what: str) -> None:
    """Raise an error if a part of a saved state is missing or is something else.

    Args:
        state: State.
        kinds: Type of each part.
        what: What the state is of, for the message.
    """
    wrong = [name for name, kind in kinds.items() if not isinstance(state.get(name), kind)]
    if wrong:
        raise CheckpointError(f"{what} lacks {', '.join(wrong)}, or they are not what they should be.")


def find_checkpoints(folder: str | os.PathLike) -> list[pathlib.Path]:
    """Return the checkpoints ``model_<iteration>.pt`` of a folder, oldest first."""
    matches = [(_MODEL_NAME.fullmatch(path.name), path) for path in pathlib.Path(folder).glob("model_*.pt")]
    return [path for _, path in sorted((int(match[1]), path) for match, path in matches if match)]


def newest_run(folder: str | os.PathLike) -> pathlib.Path | None:
    """Return a folder itself if it is that of a run, otherwise that of the run in it which was trained last, if any."""
    folder = pathlib.Path(folder)
    if find_checkpoints(folder):
        return folder
    runs = [config.parent for config in folder.glob("*/config.yaml") if find_checkpoints(config.parent)]
    return max(runs, key=lambda run: find_checkpoints(run)[-1].stat().st_mtime, default=None)


def replay_path(path: str | os.PathLike, token: str, rank: int = 0) -> pathlib.Path:
    """Return the file beside a checkpoint that holds the replay of a process.

    The token is in the name, so saving a checkpoint again does not overwrite the replay the old one belongs to.
    """
    path = pathlib.Path(path)
    shard = f".rank{rank}" if rank > 0 else ""
    return path.with_name(f"{path.stem}.{token}{shard}.replay.pt")


def find_replays(path: str | os.PathLike) -> list[pathlib.Path]:
    """Return all files that hold a replay of a checkpoint, of any process and any save."""
    path = pathlib.Path(path)
    name = re.compile(re.escape(path.stem) + r"\.[0-9a-f]{8}(\.rank\d+)?\.replay\.pt")
    return [file for file in path.parent.iterdir() if name.fullmatch(file.name)]


def delete_older_checkpoints(newest: str | os.PathLike, keep: int) -> None:
    """Delete all but the newest checkpoints up to a certain one; later ones, of a run rolled back, are left alone.

    Args:
        newest: Checkpoint that was just written.
        keep: How many to keep, this one included; 0 keeps all.

    Raises:
        OSError: If what was just written cannot be read back. Nothing has been deleted then.
    """
    older = _older_checkpoints(newest)
    if keep > 0 and len(older) >= keep:
        _check_whole(newest)
        for old in older[: len(older) + 1 - keep]:
            old.unlink(missing_ok=True)


def delete_older_replays(newest: str | os.PathLike) -> None:
    """Delete the replays of all checkpoints before a certain one: they are large, and only it is resumed from.

    Raises:
        OSError: If what was just written cannot be read back. Nothing has been deleted then.
    """
    replays = [replay for old in _older_checkpoints(newest) for replay in find_replays(old)]
    if replays:
        for file in (newest, *find_replays(newest)):
            _check_whole(file)
        for replay in replays:
            replay.unlink(missing_ok=True)


def delete_leftovers(folder: str | os.PathLike) -> None:
    """Delete what a process that was killed while it saved a checkpoint left behind. Not while one saves."""
    folder = pathlib.Path(folder)
    with contextlib.suppress(OSError):  # what is wrong with the folder, the next save tells
        for file in folder.glob(".model_*.pt.*.tmp"):
            file.unlink(missing_ok=True)
        for replay in folder.glob("model_*.replay.pt"):  # written before the checkpoint, which then never came
            checkpoint = re.sub(r"\.[^.]+(\.rank\d+)?\.replay\.pt$", ".pt", replay.name)
            if not (folder / checkpoint).exists():
                replay.unlink(missing_ok=True)


def _older_checkpoints(newest: str | os.PathLike) -> list[pathlib.Path]:
    """Return the checkpoints before a certain one, oldest first."""
    checkpoints = find_checkpoints(pathlib.Path(newest).parent)
    return checkpoints[: checkpoints.index(pathlib.Path(newest))] if pathlib.Path(newest) in checkpoints else []


def _check_whole(path: str | os.PathLike) -> None:
    """Raise an error if a file is not a whole archive; its list of contents is at its end."""
    try:
        with zipfile.ZipFile(path):
            pass
    except zipfile.BadZipFile as error:
        raise OSError(errno.EIO, f"'{path}' cannot be read back") from error


def _alternative(path: pathlib.Path) -> str:
    """Name the newest other checkpoint of the same folder."""
    others = [other for other in find_checkpoints(path.parent) if other != path] if path.parent.is_dir() else []
    return f" The newest other checkpoint there is '{others[-1]}'." if others else ""


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _fsync_folder(folder: pathlib.Path) -> None:
    """Make a rename last through a power failure, where the system offers it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
