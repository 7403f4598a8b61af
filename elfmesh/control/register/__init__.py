"""The control register of a job: CASPaxos on the agents closest to its id (D-4)."""
