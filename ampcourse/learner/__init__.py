"""For those who take the course: their copies of the lessons, a whole notebook checked, and how far they are."""
