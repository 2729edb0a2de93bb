"""The errors a user can mend. Each says what is wrong, what was expected, and what to do."""

__all__ = ["HeadscopeError", "InputError", "ModelError", "OutputError", "StudyError", "WriteError"]


class HeadscopeError(Exception):
    """Something the user can mend; the command line prints it without a traceback."""


class InputError(HeadscopeError):
    """A corpus that cannot be read; the message carries the path and the line."""


class ModelError(HeadscopeError):
    """A model or tokenizer that cannot be loaded, or whose attention cannot be measured."""


class StudyError(HeadscopeError):
    """A question that cannot be asked: an unknown name, a bad option, data that is not there."""


class OutputError(HeadscopeError):
    """A folder or file that cannot be written, or one that belongs to another run."""


class WriteError(OutputError):
    """A file that could not be written, as the disk is full or the folder is not ours."""
