#!/usr/bin/env python
"""Entry for every administrative command; `manage.py up` starts the whole product."""

import sys

from django.core.management import execute_from_command_line

from laissez.stack.entry import prepare_environment

if __name__ == "__main__":
    prepare_environment(sys.argv)
    execute_from_command_line(sys.argv)
