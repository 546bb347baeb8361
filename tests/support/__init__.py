"""What tests are made of: virtual time, a line with a simulated device behind it, a whole supervised gripper."""
