"""The embedded PostgreSQL and Valkey, and the supervisor behind `manage.py up`.

Plain Python: no Django, and nothing else of the project.
"""
