"""The rules of CASPaxos: pure, and independent of the value (D-4)."""
