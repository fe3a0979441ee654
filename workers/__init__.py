"""The floor: clusters, hosts, jobs, leases, checkpoints and migrations. Workers execute what the market decides."""
