"""Files that somebody else wrote are parsed, or refused in one line; nothing outside the folder is read."""

import json
import os
import sys

import pytest

from estimator_train.compat.scan import _with_large_stack, scan
from estimator_train.compat.scan.sources import Unreadable, files_in, parts_of


def notebook(*sources):
    return json.dumps({"cells": [{"cell_type": "code", "source": source} for source in sources]})


UNREADABLE = {
    "signs.py": ("-" * 500_000 + "1", "nested too deeply"),
    "elif.py": ("if a: b\n" + "elif a: b\n" * 50_000, "nested too deeply"),
    "brackets.py": ("(" * 100_000, "line 1: too many nested parentheses"),
    "large.py": ("#" * (1 << 20) + "\n", "larger than 1 MiB"),
    "latin.py": (b"a = 1\n\nb = '\xe9'\n", "not in its encoding, utf-8: byte 12 is 0xe9"),
    "coding.py": ("# coding: no_such\n", "unknown encoding"),
    "null.py": ("a\0", "null bytes"),
    "python2.py": ("a = 1\nprint 'x'\n", "line 2: Missing parentheses"),
    "broken.ipynb": ("{", "a damaged notebook"),
    "list.ipynb": ("[1]", "a damaged notebook"),
    "number.ipynb": (notebook(3), "a damaged notebook"),
    "numbers.ipynb": (notebook([1, 2]), "a damaged notebook"),
    "sheets.ipynb": ('{"worksheets": 3}', "a damaged notebook"),
    "deep.ipynb": ("[" * 200_000, "a notebook that is nested too deeply"),
    "large.ipynb": (notebook("#" * (1 << 20) + "\n"), "more than 1 MiB of code"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_are_refused_in_one_line(name, tmp_path):
    content, why = UNREADABLE[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Unreadable) as error:
        _with_large_stack(lambda: parts_of(path))
    assert why in str(error.value) and len(str(error.value).splitlines()) == 1
    assert error.value.is_python_2 == ("Missing" in why or "brackets" in name)


def test_the_longest_chain_of_operators_does_not_end_the_process(tmp_path):
    """Python 3.10 has no limit of its own; later versions refuse it."""
    (tmp_path / "chain.py").write_text("+".join(["1"] * 500_000))
    (file,) = scan(tmp_path)
    assert file.names == [] and (file.why == "" if sys.version_info < (3, 11) else "nested too deeply" in file.why)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    for name, why in (("pipe.py", "not a regular file"), ("device.py", "a symbolic link")):
        with pytest.raises(Unreadable, match=why):
            parts_of(tmp_path / name)


def test_links_are_followed_nowhere_and_named_if_they_lead_out(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deeper").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.py").touch()
    (inside / "deeper" / "a.py").touch()
    for link, target in {
        "loop.py": "loop.py",
        "gone.py": "nowhere.py",
        "secret.py": outside / "secret.py",
        "folder": outside,
        "again": ".",
        "alias.py": "deeper/a.py",
    }.items():
        (inside / link).symlink_to(target)
    found = [path.relative_to(inside).as_posix() for path in files_in(inside)]
    assert found == ["folder", "gone.py", "loop.py", "secret.py", "deeper/a.py"]


def test_hidden_folders_and_virtual_environments_are_left_out(tmp_path):
    for folder in (".git", "env", "pkg"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path)] == ["pkg/a.py"]


def test_cells_keep_their_numbers_and_lines_among_ipythons_own(tmp_path):
    path = tmp_path / "a.ipynb"
    cells = [
        {"cell_type": "markdown", "source": "print 'x'"},
        {
            "cell_type": "code",
            "source": ["!pip install \\\n", "  x\n", "files = !ls\n", "a?\n", "if a:\n", "  %b c\n", "d"],
        },
        {"cell_type": "code", "source": "%%bash\nls -l"},
        {"cell_type": "code", "source": "%%time\ne"},
    ]
    path.write_text(json.dumps({"cells": cells}))
    assert [(part.cell, part.tree.body[-1].lineno) for part in parts_of(path)] == [(2, 7), (4, 2)]
    assert not any(part.unreadable for part in parts_of(path))
    old = [{"cell_type": "code", "input": "f"}]
    path.write_text(json.dumps({"worksheets": [{"cells": old}, {"cells": old}]}))
    assert [part.cell for part in parts_of(path)] == [1, 2]


def test_a_cell_that_cannot_be_parsed_leaves_the_others(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(notebook("a = 1", "print 'x'", "a\0", "b = 2"))
    first, old, null, last = parts_of(path)
    assert (len(first.tree.body), old.tree.body, null.tree.body, len(last.tree.body)) == (1, [], [], 1)
    assert "cell 2, line 1: Missing parentheses" in str(old.unreadable) and old.unreadable.is_python_2
    assert "null bytes" in str(null.unreadable) and str(null.unreadable).startswith("cell 3, ")
