"""Data of a job: manifest, plan, terms, policy, roster, records."""
