"""Programs: processes of users beside an agent, which use the paper's verbs (docs/programs.md)."""
