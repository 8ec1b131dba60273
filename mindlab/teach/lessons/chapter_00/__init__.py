"""Chapter 00, start here: two easy exercises with messages, and a quiz on how to read a run."""

from mindlab.teach.lessons.chapter_00 import quiz, relay, swap

EXERCISES = (relay.EXERCISE, swap.EXERCISE)
QUIZZES = (quiz.QUIZ,)
