"""Chapter 02, tensor parallel: columns, an MLP, a vocabulary; four case files; a quiz."""

from mindlab.teach.lessons.chapter_02 import (
    bias_p_times,
    columns,
    columns_added,
    embedding,
    own_weights,
    pair,
    quiz,
    rows_joined,
)

EXERCISES = (columns.EXERCISE, pair.EXERCISE, embedding.EXERCISE)
CASES = (columns_added.CASE, rows_joined.CASE, bias_p_times.CASE, own_weights.CASE)
QUIZZES = (quiz.QUIZ,)
