"""The service on a machine of its own: systemd booted in a container. Run as root: `./run test` does it, see run."""
