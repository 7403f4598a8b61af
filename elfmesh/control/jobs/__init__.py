"""What a job is: manifest, plan, terms, policy, roster, records."""
