"""What an integrator needs on a robot's host: scan, doctor, install."""
