"""Chapter 05, Ulysses: to the heads, back, and few key heads; three case files; a quiz."""

from mindlab.teach.lessons.chapter_05 import back, chunks, keys, quiz, round_trip, there, two_hosts

EXERCISES = (there.EXERCISE, back.EXERCISE, keys.EXERCISE)
CASES = (two_hosts.CASE, round_trip.CASE, chunks.CASE)
QUIZZES = (quiz.QUIZ,)
