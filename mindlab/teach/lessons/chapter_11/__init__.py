"""Chapter 11, VAE tiles: a halo on paper, corners, a norm over tiles; three case files; a quiz."""

from mindlab.teach.lessons.chapter_11 import (
    corners,
    edges,
    farther,
    quiz,
    reach,
    together,
    tones,
)

EXERCISES = (reach.EXERCISE, corners.EXERCISE, together.EXERCISE)
CASES = (edges.CASE, farther.CASE, tones.CASE)
QUIZZES = (quiz.QUIZ,)
