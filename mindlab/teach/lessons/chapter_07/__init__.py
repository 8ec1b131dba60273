"""Chapter 07, CFG parallel: guidance over branches, both in one batch; three case files; a quiz."""

from mindlab.teach.lessons.chapter_07 import dropped, fused, gather, manual, quiz, shifted

EXERCISES = (gather.EXERCISE, fused.EXERCISE)
CASES = (manual.CASE, shifted.CASE, dropped.CASE)
QUIZZES = (quiz.QUIZ,)
