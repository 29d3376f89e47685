"""What runs inside the sandbox, as programs of their own: Python's standard library, and ipykernel at the end."""
