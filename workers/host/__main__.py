"""`python -m workers.host` is `laissez-host`."""

import sys

from workers.host.daemon import main

sys.exit(main())
