"""Entry point of `python -m estimator_train`."""

from estimator_train.cli import main

if __name__ == "__main__":
    main()
