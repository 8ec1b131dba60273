"""Chapter 03, sequence parallel: a norm of a slice, a pair of products, two branches; three case files."""

from mindlab.teach.lessons.chapter_03 import (
    across_heads,
    around_the_pair,
    beside_each_other,
    dropped_copy,
    lost_tokens,
    one_collective,
    quiz,
)

EXERCISES = (one_collective.EXERCISE, around_the_pair.EXERCISE, beside_each_other.EXERCISE)
CASES = (across_heads.CASE, lost_tokens.CASE, dropped_copy.CASE)
QUIZZES = (quiz.QUIZ,)
