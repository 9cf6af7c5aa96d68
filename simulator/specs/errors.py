"""The exception tree of the whole tool.

::

    EighthscaleError              exit code 1: a defect of ours unless a subclass says otherwise
    ├── UserInputError            exit code 2: what the user wrote or brought is wrong
    │   ├── SpecError             a field of a configuration, by its dotted path
    │   ├── DataError             a data file, by its path
    │   └── StudyError            a study directory: missing, foreign, locked, of another schema
    ├── FitError                  exit code 3: the numbers do not support the answer asked for
    ├── GateError                 exit code 3: a check failed that blocks going on
    └── StoppedError              exit code 4: budget or interrupt; the work can be resumed

Messages for users have four parts: the field by its path, the rule, the value found, the way out.
"""

__all__ = [
    "DataError",
    "EighthscaleError",
    "FitError",
    "GateError",
    "SpecError",
    "StoppedError",
    "StudyError",
    "UserInputError",
]


class EighthscaleError(Exception):
    """Base of every error this tool raises on purpose."""

    exit_code = 1


class UserInputError(EighthscaleError, ValueError):
    """Report what a user wrote wrongly, in four parts.

    Parameters
    ----------
    path
        Dotted path of the field, or the path of the file.
    rule
        What must hold, phrased to follow the path: ``"must divide model.n_heads (12)"``.
    found
        The value found; shown with ``repr`` unless it is already a phrase of ours.
    fix
        The way out, one sentence.
    """

    exit_code = 2

    def __init__(self, path: str, rule: str, found: object, fix: str) -> None:
        self.path, self.rule, self.found, self.fix = path, rule, found, fix
        super().__init__(f"{path} {rule}; got {_shown(found)}. {fix}")

    def __reduce__(self) -> tuple[type, tuple[str, str, object, str]]:
        """Let the error cross a process boundary whole."""
        return type(self), (self.path, self.rule, self.found, self.fix)


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 200 else text[:197] + "..."


class SpecError(UserInputError):
    """A field of a configuration breaks a rule."""


class DataError(UserInputError):
    """A data file cannot be read as what it claims to be."""


class StudyError(UserInputError):
    """A study directory cannot be used for what was asked."""


class FitError(EighthscaleError):
    """The numbers at hand do not determine the answer asked for."""

    exit_code = 3


class GateError(EighthscaleError):
    """A check failed that must hold before going on."""

    exit_code = 3


class StoppedError(EighthscaleError):
    """Work stopped by budget or interrupt; everything finished is stored and can be resumed."""

    exit_code = 4
