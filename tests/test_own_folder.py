from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calibrail.atomic_files import own_folder, whole_file

HOLDS = """
import sys
from pathlib import Path
from calibrail.atomic_files import own_folder

with own_folder(Path(sys.argv[1])) as folder:
    (folder / "text").write_text("what was asked")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_folders_of_the_living_stay_and_those_of_the_killed_go(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    other = Path(holder.stdout.readline().strip())
    elsewhere = tmp_path / "run-ofnobody.calibrail-unfinished"
    elsewhere.mkdir()
    with own_folder(tmp_path) as first, own_folder(tmp_path) as second:
        assert len({first, second, other}) == 3
        assert all(folder.is_dir() for folder in (first, second, other))
        assert not elsewhere.exists()
    assert [path.name for path in tmp_path.iterdir()] == [other.name]
    holder.kill()
    holder.wait()
    assert (other / "text").exists()
    with own_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert not list(tmp_path.iterdir())


def test_a_folder_goes_with_an_error_and_a_link_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / ".calibrail-lock").write_text("")
    (tmp_path / "run-linklink").symlink_to(kept)
    with pytest.raises(ValueError, match="bad"), own_folder(tmp_path) as folder:
        raise ValueError("bad")
    assert not folder.exists() and (kept / ".calibrail-lock").exists()


@pytest.mark.parametrize("name", ["config", "*", "[a-z]*"])
def test_folders_of_others_with_a_name_like_that_of_a_file_stay(tmp_path: Path, name: str) -> None:
    for kept, held in (
        (".config.d", "lock"),
        (".config.username", "lock"),
        (".a.b", ""),
        (".config.ofsomeon", ""),
        (".config.settings.calibrail", "lock"),
    ):
        (tmp_path / kept).mkdir()
        if held:
            (tmp_path / kept / held).write_text("")
    before = sorted(tmp_path.rglob("*"))
    with whole_file(tmp_path / name) as made:
        made.write_text("")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / name])


def test_a_removal_that_is_killed_is_gone_on_with(tmp_path: Path) -> None:
    # Whatever the order in which a file system lists them, the lock goes last.
    killed = f"""
import os, signal
from pathlib import Path

from calibrail.atomic_files import own_folder

with own_folder(Path({str(tmp_path)!r})) as folder:
    for name in "abc":
        (folder / name).write_text("what was asked")
    unlink, done = os.unlink, []
    def dies(*arguments, **options):
        unlink(*arguments, **options)
        done.append(arguments)
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    os.unlink = dies
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    (left,) = tmp_path.iterdir()
    assert len(list(left.iterdir())) == 2
    with own_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
