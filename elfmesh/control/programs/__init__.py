"""Programs beside agents: users' own processes, which an agent gives the paper's verbs (docs/programs.md)."""
