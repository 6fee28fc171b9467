"""The lessons: each module declares `LESSON`."""
