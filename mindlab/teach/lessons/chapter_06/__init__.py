"""Chapter 06, expert parallel: an uneven exchange, once per rank; four case files; a quiz."""

from mindlab.teach.lessons.chapter_06 import capacity, once, one_process, quiz, sizes, swap, weightless

EXERCISES = (swap.EXERCISE, once.EXERCISE)
CASES = (weightless.CASE, sizes.CASE, capacity.CASE, one_process.CASE)
QUIZZES = (quiz.QUIZ,)
