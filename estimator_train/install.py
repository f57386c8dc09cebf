"""`import estimator_train.install` installs the drop-in, as `estimator_train.install()` does."""

import sys

from estimator_train.drop_in import install

install()
# The import statement binds what stands here: `estimator_train.install` stays the function.
sys.modules[__name__] = install  # type: ignore[assignment]
