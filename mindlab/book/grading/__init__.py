"""`mindlab grade`: run what learners handed in, and judge every exercise by its check.

A submission is executed in a kernel of its own; nothing that it prints or shows counts. Its functions are
then taken out by name and judged in another process, which never loads them: only the ranks do.
"""

from mindlab.book.grading.runner import Wanted, grade

__all__ = ["Wanted", "grade"]
