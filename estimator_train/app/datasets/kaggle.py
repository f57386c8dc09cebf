"""Downloads from Kaggle with its own client, the package `kaggle`."""

import contextlib
import email.utils
import io
import os
import sys
import time
from pathlib import Path

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.disk import full_disk_in_one_line, require_room
from estimator_train.app.errors import SpelledError

_TRIES = 5
_LONGEST_WAIT = 300  # seconds; Kaggle's rate limits last about a minute


_TO_GET_CREDENTIALS = """{0}: create an API token at https://www.kaggle.com/settings
put it into KAGGLE_API_TOKEN or ~/.kaggle/access_token (or a kaggle.json into ~/.kaggle), and run again
or download https://www.kaggle.com/datasets/{1} in a browser, and give the zip or its folder as {data_dir}"""


class CredentialsError(SpelledError, PermissionError):
    """Kaggle credentials are missing or rejected. Several lines say why, and what to do."""

    is_one_line = False

    def __init__(self, reason: str, dataset: str) -> None:
        super().__init__(_TO_GET_CREDENTIALS, reason, dataset)


class NoDatasetError(SpelledError, FileNotFoundError):
    """Kaggle has no dataset of that name."""


def download(dataset: str, directory: StrPath) -> Path:  # type: ignore[return]  # the last try ends it
    """Downloads a dataset into `directory`, with a progress bar on standard error, and returns the path of its archive.

    An interrupted download is resumed. The client finds credentials itself: in KAGGLE_API_TOKEN, in KAGGLE_USERNAME and
    KAGGLE_KEY, or in its files. `dataset` is "owner/name".

    Raises:
      CredentialsError: there are no credentials, or Kaggle rejects them.
      PermissionError, FileNotFoundError: the account has no access to the dataset, or the dataset does not exist.
      ConnectionError: Kaggle cannot be reached or is too busy, or the download was interrupted.
      OSError: the disk has no room for the archive and its unpacked files.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            with contextlib.redirect_stdout(sys.stderr), full_disk_in_one_line(directory):
                _client(dataset).dataset_download_files(dataset, path=str(directory), quiet=False)
            return Path(directory, f"{dataset.rpartition('/')[2]}.zip")
        except CredentialsError:
            raise
        except Exception as error:  # errors of the client, requests and urllib3 have no common base
            wait = _retry_after(error)
            if wait is None or wait > _LONGEST_WAIT or attempt == _TRIES:
                explained = _explained(error, dataset, wait)
                if explained is None:
                    raise
                raise explained from error
            print(f"Kaggle asks us to wait {wait:.0f} s (429 Too Many Requests)", file=sys.stderr)
            time.sleep(wait)


def _client(dataset):
    """Returns an authenticated client that checks for disk space before a download, and the file's size after it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # hides many lines about credentials
            from kaggle.api.kaggle_api_extended import KaggleApi  # importing it authenticates, too

            client = _checking(KaggleApi, dataset)()
            client.authenticate()
            return client
    except SystemExit as error:
        raise CredentialsError("Kaggle needs credentials, and it accepts none of those found", dataset) from error
    except OSError as error:
        if type(error) is not OSError:
            raise
        # Version 1.6 raises a plain OSError for missing credentials; requests' errors are subclasses.
        raise CredentialsError("Kaggle needs credentials, and there are none", dataset) from error


def _checking(api, dataset):
    class Client(api):
        def download_file(self, response, path, *options):
            with contextlib.closing(response):
                size = int(response.headers.get("Content-Length", 0))
                here = os.path.getsize(path) if os.path.exists(path) else 0
                # Images hardly shrink in a zip, so the unpacked files need about the same space again.
                require_room(os.path.dirname(path), 2 * size - here, f"the download of {dataset}")
                super().download_file(response, path, *options)
            if size and os.path.getsize(path) != size:
                raise ConnectionError(f"received only {os.path.getsize(path)} of {size} bytes")

    return Client


def _explained(error, dataset, wait):
    """Returns an error to raise instead of the client's, or None if the client's is clear enough."""
    again = "run the command again to resume"
    when = f"in {wait:.0f} s" if wait else "later"
    denied = f"Kaggle denies this account access to {dataset} (403 Forbidden)"
    by_status = {
        401: CredentialsError("Kaggle rejects the credentials", dataset),
        403: PermissionError(f"{denied}; open https://www.kaggle.com/datasets/{dataset} and accept its terms"),
        404: NoDatasetError("Kaggle has no dataset {0} (404 Not Found); give its files as {data_dir}", dataset),
        429: ConnectionError(f"Kaggle is too busy to send {dataset} (429 Too Many Requests); {again}, {when}"),
    }
    if status := _status(error):
        return by_status.get(status) or ConnectionError(f"Kaggle answered {status} for {dataset}; {again}")
    library = type(error).__module__.partition(".")[0]
    if library in ("requests", "urllib3") or isinstance(error, ConnectionError):
        return ConnectionError(
            f"the download of {dataset} failed: Kaggle cannot be reached ({type(error).__name__}); {again}"
        )
    return None


def _status(error):
    """Returns the HTTP status of an error from requests or from client 1.6, or None."""
    return getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)


def _retry_after(error):
    """Returns the seconds to wait after a 429, from its Retry-After number or date, or 30; None for other errors."""
    if _status(error) != 429:
        return None
    headers = getattr(error, "headers", None) or error.response.headers
    value = headers.get("Retry-After", "30")
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 30.0
