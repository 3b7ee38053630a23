"""Skeletons keep all that tells a learner what to do, and nothing that tells how."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from grader.course import Stage, load_course
from grader.skeleton import SkeletonError, differences, generate, write

ROOT = Path(__file__).parents[1]
STAGES = load_course(ROOT).stages


def skeleton_of(source: str, *exercises: str) -> str:
    return generate(dedent(source), list(exercises))


def test_a_function_keeps_signature_and_docstring() -> None:
    made = skeleton_of(
        '''\
        """A module."""

        import math  # for the root


        @decorated(once=True)
        def scale(x: Float[Tensor, "batch seq"], *, by: int = 2) -> float:  # one line
            """Scale.

            Raises nothing.
            """
            y = x / math.sqrt(by)  # an answer
            # another answer
            return y


        def given(x):
            return x + 1
        ''',
        "scale",
    )
    assert made == dedent(
        '''\
        """A module."""

        import math  # for the root


        @decorated(once=True)
        def scale(x: Float[Tensor, "batch seq"], *, by: int = 2) -> float:  # one line
            """Scale.

            Raises nothing.
            """
            raise NotImplementedError


        def given(x):
            return x + 1
        '''
    )


def test_comments_before_any_code_stay() -> None:
    made = skeleton_of(
        '''\
        def f(x):
            """Do."""

            # Think of the shapes first.
            # Then of the axes.

            y = x  # answer
            # answer
            return y


        def g(x):
            # No docstring here.
            return x
        ''',
        "f",
        "g",
    )
    assert made == dedent(
        '''\
        def f(x):
            """Do."""

            # Think of the shapes first.
            # Then of the axes.
            raise NotImplementedError


        def g(x):
            # No docstring here.
            raise NotImplementedError
        '''
    )


def test_every_method_of_a_class_is_emptied_and_private_ones_go() -> None:
    made = skeleton_of(
        '''\
        @dataclass(frozen=True)
        class Layer(nn.Module):
            """A layer."""

            width: int = 4
            _cache = None

            def __init__(self, width):
                """Make it."""
                super().__init__()
                self.width = width

            def _secret(self):
                return 1

            @property
            def size(self):
                return self.width

            def __call__(self, x): return x

            @staticmethod
            def make():
                def inner():
                    return 2
                return inner
                # the last word
        ''',
        "Layer",
    )
    assert made == dedent(
        '''\
        @dataclass(frozen=True)
        class Layer(nn.Module):
            """A layer."""

            width: int = 4

            def __init__(self, width):
                """Make it."""
                raise NotImplementedError

            @property
            def size(self):
                raise NotImplementedError

            def __call__(self, x):
                raise NotImplementedError

            @staticmethod
            def make():
                raise NotImplementedError
        '''
    )


def test_private_names_go_unless_given() -> None:
    made = skeleton_of(
        """\
        __all__ = ["f"]
        _EPS = 1e-5
        LIMIT: int = 3


        def _helper(x):
            return x


        # Given: you need not write this.
        def _shown(x):
            return x


        class _Private:
            pass


        def f(x):
            return _helper(x)
        """,
        "f",
    )
    assert made == dedent(
        """\
        __all__ = ["f"]
        LIMIT: int = 3


        # Given: you need not write this.
        def _shown(x):
            return x


        def f(x):
            raise NotImplementedError
        """
    )


def test_what_is_no_exercise_is_copied() -> None:
    source = 'class Given:\n    """Given."""\n    def f(self):\n        return 1   # kept\n\nx=1\n'
    assert generate(source, []) == source


def test_an_exercise_that_is_not_there_is_named() -> None:
    with pytest.raises(SkeletonError, match="no function or class 'absent'"):
        skeleton_of("def present(): ...\n", "absent")


def test_a_solution_that_is_no_python_is_refused() -> None:
    with pytest.raises(SkeletonError, match="line 1 is not Python"):
        skeleton_of("def (:\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course with one stage, one exercise file, one given file and one private file."""
    solutions = tmp_path / "solutions" / "stage1_counting"
    solutions.mkdir(parents=True)
    (tmp_path / "stages" / "stage1_counting" / "checks").mkdir(parents=True)
    (tmp_path / "stages" / "stage1_counting" / "checks" / "test_public.py").write_text("")
    (tmp_path / "stages" / "course.toml").write_text(
        'title = "T"\n[[stage]]\nname = "stage1"\nfolder = "stage1_counting"\ntitle = "Counting"\n'
        '[[stage.exercise]]\nname = "count"\nfile = "counting.py"\npoints = 1\n'
    )
    (solutions / "__init__.py").write_text('"""Counting."""\n')
    (solutions / "counting.py").write_bytes("def count(x):\n    '''Zählt.'''\n    return len(x)\n".encode())
    (solutions / "demo.py").write_text("print(1)\n")
    (solutions / "_tables.py").write_text("SECRET = 1\n")
    return tmp_path


def test_writes_every_file_but_the_private_ones(root: Path) -> None:
    assert write(root) == [
        "stages/stage1_counting/__init__.py",
        "stages/stage1_counting/counting.py",
        "stages/stage1_counting/demo.py",
    ]
    folder = root / "stages" / "stage1_counting"
    assert (folder / "counting.py").read_bytes().decode() == (
        "def count(x):\n    '''Zählt.'''\n    raise NotImplementedError\n"
    )
    assert (folder / "demo.py").read_text() == "print(1)\n"
    assert not (folder / "_tables.py").exists()
    assert write(root) == []


def test_says_what_differs(root: Path) -> None:
    write(root)
    assert differences(root) == []
    folder = root / "stages" / "stage1_counting"
    (folder / "counting.py").write_text("def count(x):\n    return 1\n")
    (folder / "demo.py").unlink()
    (folder / "extra.py").write_text("")
    assert differences(root) == [
        "stages/stage1_counting/counting.py differs from what its solution gives.",
        "stages/stage1_counting/demo.py is missing.",
        "stages/stage1_counting/extra.py has no solution.",
    ]


def test_a_package_inside_a_stage_is_copied(root: Path) -> None:
    package = root / "solutions" / "stage1_counting" / "gym"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "counting.py").write_text("def count(x):\n    return len(x)\n")
    (package / "_tables.py").write_text("SECRET = 1\n")
    folder = "stages/stage1_counting/gym"
    assert f"{folder}/counting.py is missing." in differences(root)
    assert {f"{folder}/__init__.py", f"{folder}/counting.py"} <= set(write(root))
    assert (root / folder / "counting.py").read_text() == "def count(x):\n    return len(x)\n"
    assert not (root / folder / "_tables.py").exists()
    (root / folder / "extra.py").write_text("")
    assert differences(root) == [f"{folder}/extra.py has no solution."]


def test_a_missing_solution_is_said_plainly(root: Path) -> None:
    (root / "solutions" / "stage1_counting" / "counting.py").unlink()
    with pytest.raises(SkeletonError, match=r"counting\.py is not there"):
        differences(root)


def test_an_unwritten_exercise_names_its_solution(root: Path) -> None:
    (root / "solutions" / "stage1_counting" / "counting.py").write_text("")
    with pytest.raises(SkeletonError, match=r"^solutions/stage1_counting/counting\.py: .*'count'"):
        write(root)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_no_answer_of_this_course_is_left(stage: Stage) -> None:
    for file in stage.files:
        exercises = [exercise.name for exercise in stage.exercises if exercise.file == file]
        source = (ROOT / "solutions" / stage.folder / file).read_text(encoding="utf-8")
        made = generate(source, exercises)
        assert generate(made, exercises) == made
        top_level = {node.name: node for node in ast.parse(made).body if hasattr(node, "name")}
        for name in exercises:
            functions = [node for node in ast.walk(top_level[name]) if isinstance(node, ast.FunctionDef)]
            assert functions
            for function in functions:
                code = function.body[1:] if ast.get_docstring(function) else function.body
                assert [ast.unparse(statement) for statement in code] == ["raise NotImplementedError"]
