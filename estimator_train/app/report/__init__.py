"""Reports of runs: pages, tables and plots."""
