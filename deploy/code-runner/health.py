"""Ask the runner of this container how it is: status 0 when it takes programs, 1 when it does not."""

import http.client
import os
import sys

_SECONDS = 5.0

if __name__ == "__main__":
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["FUMEHOOD_CODE__PORT"]), timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        print(answer.read(1000).decode())
    except OSError as error:
        sys.exit(f"no answer: {error}")
    sys.exit(0 if answer.status == http.HTTPStatus.OK else 1)
