# SPDX-License-Identifier: Apache-2.0
"""A file from the network into memory: whole, or an error. Nothing half finished ever reaches the disk."""

import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, twice that before the third
MOST_BYTES = 400_000_000  # more than any file we know
CHUNK = 1 << 16
WORTH_ANOTHER_TRY = {408, 429, 500, 502, 503, 504}

OnBytes = Callable[[int, int], None]


class DownloadError(OSError):
    """An address did not give the file that was expected of it."""


def download(
    address: str, on_bytes: OnBytes = lambda done, total: None, timeout: float = TIMEOUT, pause: float = PAUSE
) -> bytes:
    """What is at ``address``; begun anew a few times where the connection breaks, stalls or the server is busy.

    Args:
        address: http or https.
        on_bytes: called with how many bytes have come, and how many there are (0 if the server does not say).
        timeout: seconds without any byte until an attempt is given up.
        pause: seconds between the first two attempts.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * attempt)
        try:
            return _once(address, on_bytes, timeout)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code not in WORTH_ANOTHER_TRY:
                break
        except TimeoutError:
            reason = f"nothing came for {timeout:g} seconds"
        except urllib.error.URLError as error:
            timed_out = isinstance(error.reason, TimeoutError | socket.timeout)
            reason = f"nothing came for {timeout:g} seconds" if timed_out else str(error.reason)
        except (http.client.HTTPException, ConnectionError) as error:
            reason = f"the connection broke off ({error or type(error).__name__})"
    raise DownloadError(f"{address} cannot be fetched: {reason}")


def _once(address: str, on_bytes: OnBytes, timeout: float) -> bytes:
    request = urllib.request.Request(address, headers={"User-Agent": "fpovi"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        total = int(answer.headers.get("Content-Length") or 0)
        parts, done = [], 0
        on_bytes(0, total)
        while part := answer.read1(CHUNK):
            parts.append(part)
            done += len(part)
            if done > MOST_BYTES:
                raise DownloadError(f"{address} gives more than {MOST_BYTES} bytes: this is not the file we know")
            on_bytes(done, total)
    if done < total:
        raise http.client.IncompleteRead(b"", total - done)
    return b"".join(parts)
