"""Chapter 08, replicas and pipelines: a router, a schedule, a pipeline by hand; three case files; a quiz."""

from mindlab.teach.lessons.chapter_08 import boxes, bubble, by_hand, memory, quiz, routing, turns

EXERCISES = (routing.EXERCISE, boxes.EXERCISE, by_hand.EXERCISE)
CASES = (turns.CASE, bubble.CASE, memory.CASE)
QUIZZES = (quiz.QUIZ,)
