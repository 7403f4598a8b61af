"""Who a caller is, and what that allows: roles, principals, and where they come from."""
