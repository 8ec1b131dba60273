"""Chapter 01, collectives: half a ring, a tree, a whole ring in little memory; four case files; a quiz."""

from mindlab.teach.lessons.chapter_01 import (
    all_reduce,
    broadcast,
    crash,
    endless,
    quiz,
    reduce_scatter,
    right_bytes,
    right_values,
)

EXERCISES = (reduce_scatter.EXERCISE, broadcast.EXERCISE, all_reduce.EXERCISE)
CASES = (right_values.CASE, right_bytes.CASE, endless.CASE, crash.CASE)
QUIZZES = (quiz.QUIZ,)
