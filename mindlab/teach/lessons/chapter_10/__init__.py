"""Chapter 10, decode: a merge over ranks, a change of layout, a latent cache; three case files; a quiz."""

from mindlab.teach.lessons.chapter_10 import change, everywhere, latent, merge, offset, quiz, unmerged

EXERCISES = (merge.EXERCISE, change.EXERCISE, latent.EXERCISE)
CASES = (unmerged.CASE, everywhere.CASE, offset.CASE)
QUIZZES = (quiz.QUIZ,)
