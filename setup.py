"""Packaging of estimator_train."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "estimator_train" / "__init__.py").read_text()).group(1)

# A package index shows README.md without the files of its links and pictures, so only the texts of the links are left.
README = re.sub(r"(<img [^>]+>\s+)+", "", (HERE / "README.md").read_text())
README = re.sub(r"\[([^\]]+)\]\((?!https://)[^)]+\)", r"\1", README)

# The Estimator and what its users import, with `compat`, the old names. They train, evaluate, predict and export.
LIBRARY = [
    "tensorflow>=2.16,<2.22",  # 2.16 is the first without tf.estimator; 2.22 has no tf-keras yet, which it needs
    "tf-keras>=2.16,<2.22",  # Keras 2, for which Estimator code is written; a release needs TensorFlow's minor
    # TensorFlow brings Keras 3, without an upper bound: 3.12 to 3.15 were tried, and a newer one is a line in the log.
    "numpy>=1.26",  # arrays in and out; TensorFlow bounds it from above
    "filelock>=3.20.1",  # one process at a time trains in a directory or fills a cache; earlier ones follow links
    "cloudpickle>=3",  # sends the functions of a script, and lambdas, to processes that run generators
    "tqdm>=4.60",  # progress bars
]

# `app`: the command, its datasets, models and reports.
APPLICATION = [
    "kaggle>=1.6,!=1.7.*",  # downloads the OCT2017 images; 1.7 cannot go on with a download, and holds it in memory
    "scipy>=1.10",  # the interval of an accuracy; scikit-learn needs it too
    "scikit-learn>=1.4",  # precision, recall, F1 and ROC AUC of evaluations
    "matplotlib>=3.8",  # the plots of reports
    "jinja2>=3.1",  # the page of a report
    "click>=8.1",  # the command line
    "cloup>=3",  # its flags in groups
    "tabulate>=0.9",  # tables on a terminal
    "pillow>=10",  # draws the embedded dataset
    "platformdirs>=4",  # the directory that the embedded dataset is kept in
]

# Builds the site of docs/.
DOCUMENTATION = [
    "mkdocs>=1.6,<2",  # the next two are made for version 1
    "mkdocs-material>=9.5,<10",  # the site's theme, which gets fixes until May 2027; RELEASING.md names its successor
    "mkdocstrings[python]>=0.30",  # the API reference, from docstrings, without importing TensorFlow
    "ruff>=0.9",  # lays out signatures in the reference
]

setup(
    name="estimator_train",
    version=VERSION,
    description="tf.estimator's API on TensorFlow 2.16 to 2.21",
    long_description=README,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=["tensorflow", "estimator", "tf.estimator", "keras", "MirroredStrategy", "distributed training"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Recognition",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["estimator_train", "estimator_train.*"]),
    package_data={
        "estimator_train": ["py.typed", "*.pyi"],  # the hints count for those who install the package
        "estimator_train.app.report": ["comparison.html", "report.html", "style.html"],
    },
    python_requires=">=3.10",
    install_requires=[*LIBRARY, *APPLICATION],
    extras_require={
        "gpu": ["tensorflow[and-cuda]>=2.16,<2.22"],  # CUDA's libraries, from PyPI
        "tensorboard": ["tensorboard>=2.16"],  # shows the events of runs
        "tfds": [
            "tensorflow-datasets>=4.9",
            "importlib_resources",
        ],  # tfds:NAME; it forgets to ask for the latter
        "hf": ["datasets>=3"],  # hf:NAME, and folders that Hugging Face's datasets saved
        "mlflow": ["mlflow-skinny>=2.10"],  # --log mlflow
        "onnx": ["tf2onnx>=1.16", "onnxruntime>=1.17"],  # export --format onnx, and its check
        "parquet": ["pyarrow>=14"],  # predict --out FILE.parquet
        "tf1": ["tf-slim>=1.1"],  # --tf1: much of tf.contrib, from layers to slim; 1.1 is its last
        "wandb": ["wandb>=0.17"],  # --log wandb
        "docs": DOCUMENTATION,
        "release": [
            "build>=1.2",  # the sdist, and a wheel from it
            "twine>=6.1",  # checks both, and uploads them; earlier versions do not know today's metadata
        ],
        "test": [
            *DOCUMENTATION,  # the search of the site is tested
            "pytest>=8",
            "pytest-timeout>=2.3",  # ends a test whose replicas or processes wait for each other for ever
            "pytest-xdist>=3.5",  # several processes of tests: TensorFlow builds its graphs on one core
            "setuptools>=68",  # what setup.py says of the package; TensorFlow 2.23 no longer brings it
            "pandas>=2",  # the frames that pandas_input_fn takes
            "tf-slim>=1.1",  # what much of tf.contrib leads to
            "pyarrow>=14",  # reads back the tables that predict writes
            "pyyaml>=6",  # reads the manifests of examples/cluster
            "kubernetes-validate>=1.30",  # has the schemas that they are checked against
            "tensorflow-datasets>=4.9",
            "importlib_resources",
            "tensorboard>=2.16",  # what Keras' TensorBoard callback writes with
            "ruff==0.17.*",  # lints and formats; another minor version may format differently
            "import-linter>=2.5",  # imports run one way; pyproject.toml has the contracts
            "mypy>=2",  # checks the hints of the public modules, and needs no stubs for TensorFlow
            "jedi>=0.20",  # what editors complete
            "nbclient>=0.10",  # runs notebooks, one of which is interrupted in a training
            "ipykernel>=6.29",  # that kernel
            "ipywidgets>=8",  # the progress bars of notebooks
            "flask>=3",  # the service of docs/recipes.md; TensorBoard brings most of what it needs
            "optuna>=4",  # the search of docs/recipes.md; the usual library for it, 40 MB with SQLAlchemy
        ],
    },
    entry_points={"console_scripts": ["estimator_train = estimator_train.app.cli:main"]},
)
