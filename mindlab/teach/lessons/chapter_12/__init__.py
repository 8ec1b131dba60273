"""Chapter 12, combined strategies: capacity, places, the texts' advice; three case files; a quiz."""

from mindlab.teach.lessons.chapter_12 import advice, baseline, capacity, changes, network, quiz, stages

EXERCISES = (capacity.EXERCISE, network.EXERCISE, advice.EXERCISE)
CASES = (changes.CASE, baseline.CASE, stages.CASE)
QUIZZES = (quiz.QUIZ,)
