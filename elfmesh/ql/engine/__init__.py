"""From a plan and records to rows."""
