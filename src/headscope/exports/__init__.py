"""A run as other programs read it: files in their formats, datasets of the hub, trackers."""
