"""What stands in a student's process in the place of modules that are not there; copied, never imported from here."""
