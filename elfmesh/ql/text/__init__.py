"""From text to drafts, and on to a plan: the only entry into the language."""
