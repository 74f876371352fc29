"""Networks that are trained or scored, their training loop, augmentation and parameters."""
