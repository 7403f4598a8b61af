"""Authorisation on this host: signatures, grants, hidden fields, the audit log."""
