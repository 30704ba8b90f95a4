"""Is a file there whole or not at all, and what is no file written through?"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calibrail.atomic_files import whole_file, whole_folder, write_atomically


def streamed(path: Path, content: bytes) -> None:
    with whole_file(path) as made:
        made.write_bytes(content)


WRITERS: list[Callable[[Path, bytes], None]] = [streamed, write_atomically]


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_stays_one(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for content in (b"one", b"two"):
        write(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_bytes() == content
    assert sorted(item.name for item in tmp_path.iterdir()) == ["link", "real"]


def test_a_link_of_a_folder_may_lead_to_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there" / "real")
    replace = os.replace

    def within(made: Path, path: Path) -> None:
        if ("here" in Path(made).parts) != ("here" in Path(path).parts):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(made, path)

    monkeypatch.setattr("calibrail.atomic_files.os.replace", within)
    with whole_folder(tmp_path / "here") as made:
        (made / "link").write_bytes(b"one")
    assert (tmp_path / "there" / "real").read_bytes() == b"one"
    assert [item.name for item in (tmp_path / "here").iterdir()] == ["link"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("write", WRITERS)
def test_a_pipe_gets_the_content(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"content")
    reader.join(timeout=60)
    assert got == [b"content"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no /dev/null here")
@pytest.mark.parametrize("write", WRITERS)
def test_the_null_device_stays_one(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "null", 0o600 | 0o020000, os.stat("/dev/null").st_rdev)
        (tmp_path / "null").write_bytes(b"")
    except OSError:
        pytest.skip("this user may make no devices")
    write(tmp_path / "null", b"content")
    assert (tmp_path / "null").is_char_device()


def test_an_error_leaves_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "file") as made:
        made.write_bytes(b"new")
        raise ZeroDivisionError
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks that end with their process")
def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from calibrail.atomic_files import whole_file\n"
        "with whole_file(pathlib.Path(sys.argv[1])) as made:\n"
        "    made.write_bytes(b'half'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert [item.name[:6] for item in tmp_path.iterdir()] == [".file."]
    streamed(tmp_path / "file", b"whole")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"whole"


@pytest.mark.skipif(sys.platform == "win32", reason="no umask")
@pytest.mark.parametrize("write", WRITERS)
def test_a_new_file_is_for_whom_the_umask_says(
    write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        for umask in (0o077, 0o022, 0o002):
            os.umask(umask)
            write(tmp_path / f"{umask}", b"content")
            assert (tmp_path / f"{umask}").stat().st_mode & 0o777 == 0o666 & ~umask
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_files_of_a_folder_come_together_or_not_at_all(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "run") as made:
        (made / "figures").mkdir()
        (made / "figures" / "a.svg").write_bytes(b"old")
        (made / "report").write_bytes(b"old")
    for folder in ("run", "new"):
        with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / folder) as made:
            (made / "report").write_bytes(b"half")
            raise ZeroDivisionError
    assert [item.name for item in tmp_path.iterdir()] == ["run"]
    kept = {str(item.relative_to(tmp_path / "run")) for item in (tmp_path / "run").rglob("*")}
    assert kept == {"figures", "figures/a.svg", "report"}
    assert (tmp_path / "run" / "report").read_bytes() == b"old"


def test_what_stands_in_a_files_place_is_looked_at_before_anything_is_replaced(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    (run / "z").mkdir(parents=True)
    (run / "a").write_bytes(b"old")
    (run / "a").chmod(0o600)
    with pytest.raises(IsADirectoryError), whole_folder(run) as made:
        (made / "a").write_bytes(b"new")
        (made / "z").write_bytes(b"new")
    assert (run / "a").read_bytes() == b"old"
    (tmp_path / "real").write_bytes(b"old")
    (run / "link").symlink_to(tmp_path / "real")
    with whole_folder(run) as made:
        (made / "a").write_bytes(b"new")
        (made / "link").write_bytes(b"new")
    assert (run / "a").stat().st_mode & 0o777 == 0o600
    assert (run / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


def test_folders_that_an_error_leaves_empty_go(tmp_path: Path) -> None:
    def half() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    (tmp_path / "there").mkdir()
    for folder in ("new/below", "there/new/below"):
        path = tmp_path / folder / "file"
        with pytest.raises(ZeroDivisionError):
            write_atomically(path, half())
        with pytest.raises(ZeroDivisionError), whole_file(path):
            raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError), whole_folder(path):
            raise ZeroDivisionError
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]
