"""Parser of ELF-QL: SQL text to drafts and to a plan. `parsing` is the only entry."""
