"""What can go wrong beside the daemon."""

from gripperd.contract import GripperdError


class FileError(GripperdError):
    """A file cannot be read or written, or what it takes is not installed. The text says what to do."""
