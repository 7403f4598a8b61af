"""Events, effects and messages of the control machine."""
