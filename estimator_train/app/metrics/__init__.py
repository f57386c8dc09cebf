"""What an evaluation says of each task: classification, several labels, regression."""
