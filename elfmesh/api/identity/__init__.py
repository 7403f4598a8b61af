"""Authentication: roles, principals, certificates, tokens and the certificate authority."""
