"""Reading the execution half. Everything a tenant sees goes through selectors scoped to that tenant."""
