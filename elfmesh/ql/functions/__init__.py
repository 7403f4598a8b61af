"""Functions of ELF-QL. Each module registers its functions when it is imported."""
