"""The feed: what the events are called, how they are read again, and how they reach their readers.

    events.publish ──> rows ──> replay (REST, catching up)
          │                 └──> hub (one tail per process and stream) ──> sockets
          └── hint ─────────────┘

Apps register into it from their `vocabulary` (event types) and `streams` (who may read what, and its snapshot).
"""
