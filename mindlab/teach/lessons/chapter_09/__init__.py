"""Chapter 09, hybrid context parallel: a piece, an attention, a split; three case files; a quiz."""

from mindlab.teach.lessons.chapter_09 import by_hand, masked, order, piece, quiz, splits, turns

EXERCISES = (piece.EXERCISE, by_hand.EXERCISE, splits.EXERCISE)
CASES = (order.CASE, turns.CASE, masked.CASE)
QUIZZES = (quiz.QUIZ,)
