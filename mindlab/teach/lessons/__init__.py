"""The exercises, case files and quizzes, a folder a chapter: see docs/lessons.md."""
