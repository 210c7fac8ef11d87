"""The manifest of promises and the tests agree, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import promises


def planted(root: Path, text: str) -> Path:
    (root / "tests").mkdir()
    (root / "tests" / "test_planted.py").write_text("import pytest\n" + text)
    return root


def test_every_promise_is_kept_by_a_test_and_every_test_names_a_promise() -> None:
    assert promises.problems(promises.load(), promises.marked()) == []


def test_a_promise_that_no_test_keeps_is_a_problem() -> None:
    assert promises.problems([promises.Promise("A-1", "It holds.")], []) == ["A-1: no test keeps it"]


def test_a_test_that_names_no_promise_is_a_problem(tmp_path: Path) -> None:
    marks = promises.marked(planted(tmp_path, '@pytest.mark.promise("A-1")\ndef test_x(): ...\n'))
    assert promises.problems([], marks) == ["tests/test_planted.py::test_x: names A-1, which no promise has"]


@pytest.mark.parametrize("mark", ["skip", "xfail", "skipif(True, reason='no')"])
def test_a_test_that_may_not_run_keeps_no_promise(tmp_path: Path, mark: str) -> None:
    root = planted(tmp_path, f'@pytest.mark.{mark}\n@pytest.mark.promise("A-1")\nasync def test_x(): ...\n')
    said = promises.problems([promises.Promise("A-1", "It holds.")], promises.marked(root))
    assert "A-1: no test keeps it" in said
    assert len(said) == 2


def test_marks_are_found_in_classes_and_several_on_one_test(tmp_path: Path) -> None:
    text = (
        'class TestIt:\n    @pytest.mark.promise("A-1")\n    @pytest.mark.promise("A-2")\n    def test_x(self): ...\n'
    )
    marks = promises.marked(planted(tmp_path, text))
    assert [(mark.promise, mark.test) for mark in marks] == [
        ("A-1", "tests/test_planted.py::TestIt::test_x"),
        ("A-2", "tests/test_planted.py::TestIt::test_x"),
    ]


def test_an_id_that_stands_twice_is_a_problem() -> None:
    twice = [promises.Promise("A-1", "It holds."), promises.Promise("A-1", "It holds.")]
    assert "A-1: stands twice in the manifest" in promises.problems(twice, [])
