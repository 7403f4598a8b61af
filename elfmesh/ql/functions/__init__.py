"""The functions of ELF-QL, each entered into the registry."""
