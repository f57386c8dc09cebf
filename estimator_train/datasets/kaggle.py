"""Downloads from Kaggle, by its own client: the package `kaggle`."""

from __future__ import annotations

import contextlib
import email.utils
import io
import os
import sys
import time
from pathlib import Path

from estimator_train.datasets.disk import full_disk_in_one_line, require_room

_TRIES = 5
_LONGEST_WAIT = 300  # seconds; Kaggle's limits on requests last a minute or so


class CredentialsError(PermissionError):
    """Kaggle knows no account to download for. `lines` say why, and what to do."""

    def __init__(self, reason: str, dataset: str) -> None:
        self.lines = (
            f"{reason}: create an API token at https://www.kaggle.com/settings",
            "put it into KAGGLE_API_TOKEN or ~/.kaggle/access_token (a kaggle.json goes into ~/.kaggle), and run again",
            f"or download https://www.kaggle.com/datasets/{dataset} in a browser, and give the zip or its folder as "
            "--data-dir",
        )
        super().__init__("\n".join(self.lines))


def download(dataset: str, folder: str | os.PathLike[str]) -> Path:  # type: ignore[return]  # the last try ends it
    """Downloads a dataset into `folder`, with a progress bar on standard error, and returns the path of its archive.

    An interrupted download there is continued. The client looks for credentials itself: in
    KAGGLE_API_TOKEN, in KAGGLE_USERNAME and KAGGLE_KEY, or in its files.

    Args:
      dataset: "owner/name".

    Raises:
      CredentialsError: there are none, or Kaggle rejects them.
      PermissionError, FileNotFoundError: the account may not have the dataset, or there is none.
      ConnectionError: Kaggle cannot be reached, is too busy, or the download broke off.
      OSError: the disk has no room for the archive and what it unpacks to.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            with contextlib.redirect_stdout(sys.stderr), full_disk_in_one_line(folder):
                _client(dataset).dataset_download_files(dataset, path=str(folder), quiet=False)
            return Path(folder, f"{dataset.rpartition('/')[2]}.zip")
        except CredentialsError:
            raise
        except Exception as error:  # those of the client, requests and urllib3 have no base in common
            wait = _retry_after(error)
            if wait is None or wait > _LONGEST_WAIT or attempt == _TRIES:
                explained = _explained(error, dataset, wait)
                if explained is None:
                    raise
                raise explained from error
            print(f"Kaggle asks to wait {wait:.0f} s (429 Too Many Requests)", file=sys.stderr)
            time.sleep(wait)


def _client(dataset):
    """Returns an authenticated client that looks for room before it downloads a file, and at its size afterwards."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # of many lines about credentials
            from kaggle.api.kaggle_api_extended import KaggleApi  # importing it authenticates, too

            class Client(KaggleApi):
                def download_file(self, response, path, *options):
                    with contextlib.closing(response):
                        size = int(response.headers.get("Content-Length", 0))
                        here = os.path.getsize(path) if os.path.exists(path) else 0
                        # Images hardly shrink in a zip: unpacked they take about as much again.
                        require_room(os.path.dirname(path), 2 * size - here, f"the download of {dataset}")
                        super().download_file(response, path, *options)
                    if size and os.path.getsize(path) != size:
                        raise ConnectionError(f"{os.path.getsize(path)} of {size} bytes have come")

            client = Client()
            client.authenticate()
            return client
    except SystemExit as error:
        raise CredentialsError("Kaggle needs credentials, and there are none it accepts", dataset) from error
    except OSError as error:
        if type(error) is not OSError:
            raise
        # So does version 1.6 say it, while requests' errors are subclasses.
        raise CredentialsError("Kaggle needs credentials, and there are none", dataset) from error


def _explained(error, dataset, wait):
    """Returns the error to raise in place of the client's; None where that says enough."""
    again = "run the command again: what has come is kept"
    status = _status(error)
    if status == 401:
        return CredentialsError("Kaggle rejects the credentials", dataset)
    if status == 403:
        page = f"https://www.kaggle.com/datasets/{dataset}"
        return PermissionError(
            f"Kaggle does not let this account have {dataset} (403 Forbidden); open {page} and accept its terms"
        )
    if status == 404:
        return FileNotFoundError(f"Kaggle has no dataset {dataset} (404 Not Found); give its files as --data-dir")
    if status == 429:
        when = f"in {wait:.0f} s" if wait else "later"
        return ConnectionError(f"Kaggle is too busy for {dataset} (429 Too Many Requests); {again}, {when}")
    if status:
        return ConnectionError(f"Kaggle answers {status} for {dataset}; {again}")
    library = type(error).__module__.partition(".")[0]
    if library in ("requests", "urllib3") or isinstance(error, ConnectionError):
        return ConnectionError(
            f"Kaggle cannot be reached, or broke off, for {dataset} ({type(error).__name__}); {again}"
        )
    return None


def _status(error):
    """Returns the HTTP status of an error of requests or of client 1.6; None where it has none."""
    return getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)


def _retry_after(error):
    """Returns the seconds to wait that an answer 429 tells, by number or date, or 30; None for other errors."""
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
