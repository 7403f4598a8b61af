"""The rules of CASPaxos: pure, and independent of what is voted on (D-4)."""
