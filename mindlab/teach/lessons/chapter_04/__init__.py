"""Chapter 04, ring attention: a merge, a ring by hand, an even mask; three case files; a quiz."""

from mindlab.teach.lessons.chapter_04 import balanced, by_hand, gaps, manual, merge, overwritten, quiz

EXERCISES = (merge.EXERCISE, by_hand.EXERCISE, balanced.EXERCISE)
CASES = (manual.CASE, gaps.CASE, overwritten.CASE)
QUIZZES = (quiz.QUIZ,)
