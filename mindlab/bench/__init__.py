"""Times, as ratios against a peer measured in the same run: `mindlab bench`."""
