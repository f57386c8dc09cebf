"""Entry point of `python -m estimator_train`."""

from estimator_train.app.cli import main

if __name__ == "__main__":
    main()
