"""Input_fns over image files, which decode them and may keep the results in a cache."""
