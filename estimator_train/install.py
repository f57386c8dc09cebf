"""Installs the drop-in on import: `import estimator_train.install` does what `estimator_train.install()` does."""

import sys

from estimator_train.compat.drop_in import install

install()
# The import statement binds this entry to `estimator_train.install`, which must stay the function.
sys.modules[__name__] = install  # type: ignore[assignment]
