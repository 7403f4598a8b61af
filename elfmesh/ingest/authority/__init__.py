"""What this host lets run and shows: signatures, grants, hidden fields, the audit log."""
