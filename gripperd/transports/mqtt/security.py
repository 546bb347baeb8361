"""User, password and TLS from files. All of it blocks, so it runs in a thread, anew for each connection."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from gripperd.config import MqttConfig
from gripperd.contract import GripperdError

CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"
"""Where systemd puts the credentials of a service (environment)."""


class SecurityError(GripperdError):
    """A file cannot be used. The text says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a connection needs."""

    password: str | None = None
    tls: ssl.SSLContext | None = None


def needs_files(config: MqttConfig) -> bool:
    """Whether there is anything to read."""
    return config.tls or config.password_file is not None or config.password_credential is not None


def load_security(config: MqttConfig) -> Security:
    """Read the files. Raises SecurityError."""
    return Security(_password(config), _tls(config) if config.tls else None)


def _password(config: MqttConfig) -> str | None:
    if config.password_file is not None:
        return _read("password_file", Path(config.password_file))
    if config.password_credential is not None:
        folder = os.environ.get(CREDENTIALS_DIRECTORY)
        if folder is None:
            raise SecurityError(
                f"password_credential = {config.password_credential!r}: ${CREDENTIALS_DIRECTORY} is not set; run "
                "gripperd as a systemd service with LoadCredential=, or use password_file"
            )
        return _read("password_credential", Path(folder) / config.password_credential)
    return None


def _read(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip("\r\n")
    except OSError as error:
        raise SecurityError(f"{key}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecurityError(f"{key}: {path} is not UTF-8 text") from None


def _tls(config: MqttConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SecurityError(f"ca_file: {config.ca_file} cannot be used: {error.strerror or error}") from None
    if config.cert_file is not None:
        try:
            context.load_cert_chain(config.cert_file, config.key_file, lambda: "")
        except (OSError, ssl.SSLError) as error:
            files = f"cert_file {config.cert_file} and key_file {config.key_file or '(none)'}"
            raise SecurityError(f"{files} cannot be used: {error.strerror or error}; the key has no password") from None
    return context
