"""The demo: simulated grippers on real protocols, the daemon, a broker, a scripted pick and a live view."""
