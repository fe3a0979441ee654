"""The host worker: `laissez-host`, the daemon that lends a machine's accelerators to leases. No Django in here.

Flow: `daemon` (command line) -> `loop` (sync with the control plane) -> `decisions` (pure: what to do now) ->
`leases` (one link per lease) -> `shim` (one process per lease, outlives the daemon) -> `executors` (the sandboxed
processes: callbacks, workload, economic agent).
"""
