"""Commands that are long enough for a module each; they import what they need only when they run."""
