"""Plans: a DAG of delegations; read, checked, advanced and merged without any I/O or clock."""
