"""The words of exercises, cases, guesses, quizzes and progress, one table a language.

The language is the `language` argument, else MINDLAB_LANGUAGE, else English. A phrase that a language does
not have yet is said in English. The texts of a chapter's lessons stand with the lessons; `translated` looks
them up by their English wording.
"""

from __future__ import annotations

import os
from typing import Any

from mindlab.teach.lesson import Trial

_EN: dict[str, str] = {
    # exercises
    "exercise": "Exercise {name}",
    "case": "Case {name}",
    "repaired": "{name} repaired",
    "passed": "passed",
    "failed": "not yet right",
    "open": "not answered yet",
    "not_checked": "not checked",
    "graded": "graded: {trials}; {backend}, seed {seed}, code {code}",
    "trial": "{ranks} ranks with {numel} elements",
    "budget": "budget",
    "yours": "yours",
    "optimum": "optimum",
    "allowed": "allowed",
    "naive": "naive",
    "sized": "{ranks} ranks, {sizes}",
    "sent": "sent, by one rank at most",
    "sent_wire": "sent, by all ranks together (wire)",
    "calls_of": "calls of {op}, of one rank at most",
    "rounds": "rounds",
    "work": "work, of one rank at most, in FLOP",
    "memory": "extra memory, of one rank at most",
    "best": "as good as can be",
    "within": "within the budget",
    "over": "over the budget",
    "may_call": "may call: {calls}",
    "calls_nobody": "needs no other rank",
    "busiest": "{most} of a tensor of {whole}, with {ranks} ranks",
    "at_first": " ({size} in the first trial, on {ranks} ranks)",
    # findings of a check
    "not_a_function": "{given} is no function: hand over the function itself, without brackets.",
    "signature": "{name}{signature} does not take what the exercise hands it: {count} argument(s), {kinds}.",
    "raised": "Rank {rank} raised {said}.",
    "stuck": "The ranks wait for each other, and would wait for ever.",
    "timed_out": "Not done after {seconds} s. Where the ranks stood then:",
    "mismatch": "The ranks call things that do not fit together.",
    "died": "A rank ended before its time.",
    "unsafe": "A call that the backend gets wrong in silence.",
    "cannot_travel": "Something cannot go between the notebook and the ranks.",
    "forbidden": "It calls {ops}. In this exercise the library must not do the work: use {allowed}.",
    "unwaited": " The run says: {note}.",
    "not_pure": "It calls {ops}. In this exercise no rank needs another one.",
    "silent": "Nothing was sent, so no rank can know what another one holds.",
    "no_value": "{who} returned None. Is there a `return`, on every path?",
    "no_tensor": "{who} returned a {kind} where a tensor is wanted.",
    "not_so_many": "{who} returned a {kind} where {count} results are wanted: {names}.",
    "other_data": "{who} returned {seen} where {wanted} is wanted.",
    "shape": "{who} returned a tensor of shape {seen}, and {wanted} is wanted.",
    "dtype": "{who} returned {seen}, and {wanted} is wanted.",
    "values": "{who}: element {at} is {seen} where {wanted} belongs; {count} of {numel} elements are wrong.",
    "tolerance": " Allowed: {atol:g} + {rtol:g} x |one card's| ({why}).",
    "nan": "{who}: {count} of {numel} elements are NaN where one card has numbers.",
    "another_ranks": "{who} returned what belongs on rank {rank}.",
    "reordered": "{who}: the right values in another order: along dimension {dim}{name}, where {to} belongs "
    "there is {source}.",
    "other_order": "{who}: the right values, all of them, in another order.",
    "shifted": "{who}: every element is off by the same {constant}.",
    "scaled": "{who}: every element is {factor} times the right one{meant}.",
    "scaled_p": " ({name} with {ranks} ranks)",
    "argument_more": "{who}: right but for {times} x `{name}` too much.",
    "argument_less": "{who}: right but for {times} x `{name}` too little.",
    "other_chunk": "{who}: where chunk {wanted} belongs, there is chunk {seen}{composition}.",
    "missing": "{who}: missing in {place}: {parts}.",
    "extra": "{who}: in {place}, added although it does not belong there: {parts}.",
    "too_often": "{who}: in {place}, the part of rank {rank} was added {times} times.",
    "also_often": " The part of rank {rank} was added {times} times.",
    "wrong_part": "{who}: {place} holds {seen} where {wanted} belongs.",
    "rank": "Rank {rank}",
    "one_rank": "rank {rank}",
    "some_ranks": "ranks {ranks} and {last}",
    "is_right": " {ranks} is right.",
    "are_right": " {ranks} are right.",
    "is_wrong_too": " {ranks} is wrong too.",
    "are_wrong_too": " {ranks} are wrong too.",
    "part": "the part of {ranks}",
    "parts": "the parts of {ranks}",
    "empty": "{who}: {place} is all zeros.",
    "chunk": "chunk {number}",
    "its_result": "its result",
    "only": ", with nothing in it but {parts}",
    "all_wrong": " No rank is right.",
    "all_agree": " All ranks returned the same, and it is not what one card has.",
    "was_right": " With {numel} elements, which {ranks} ranks divide, it was right.",
    "was_right_with": " With {trial} it was right.",
    "strangers": "Rank {source} sent {size} to rank {target}. In this exercise it may send to {allowed} "
    "only.",
    "stranger_to_all": "Rank {source} sent {size} to rank {target}. In this exercise it may send to nobody.",
    "too_many_bytes": "Rank {rank} sent {seen}, {times} the allowed {allowed}.{cause}",
    "too_many_in_all": "All ranks together sent {seen}, {times} the allowed {allowed}.",
    "times": "{factor} times",
    "more_than": "{size} more than",
    "off_the_record": "{seen} went over the wire from rank {source} to rank {target}; your calls account for "
    "{counted}.",
    "unexplained": "The wire carried what your calls do not account for: {note}.",
    "too_many_calls": "Rank {rank} called {op} {seen} times; the budget is {allowed}.",
    "too_many_rounds": "Its messages need {seen} rounds, one after the other, with {ranks} ranks; "
    "the budget is {allowed}.{why}",
    "rounds_sender": " Rank {rank} alone sends {count} messages.",
    "rounds_chain": " Each message waits for the one before it.",
    "too_much_memory": "Rank {rank} held {seen} of tensors beside its input at one time, with {ranks} ranks; "
    "the budget is {allowed}. The whole tensor is {whole}.",
    "too_much_work": "Rank {rank} computed {seen} FLOP; the budget is {allowed}.",
    # causes of a number of bytes
    "cause_whole": " That is as much as the whole tensor in each of {rounds} rounds.",
    "cause_twice": " That is exactly twice: is everything sent a second time?",
    "cause_own": " That is as if a rank's own part travelled too.",
    # hints and solutions
    "hint": "Hint {step} of {steps} to {name}: {kind}",
    "hint_kinds": "the idea|the picture|the skeleton",
    "no_more_hints": 'That was the last hint. ml.solution("{name}") shows a solution.',
    "more_hints": 'Once more ml.hint("{name}"), and the next one shows.',
    "solution": "A solution to {name}: {title}",
    "show_solution": "Show it",
    # cases
    "cause_right": "Yes.",
    "cause_wrong": "No.",
    "cause_ask": 'What is the cause? Say it with .cause("a") … .cause("{last}").',
    "program": "The program",
    "source": "Source: {source}",
    "evidence": "What happened, on {ranks} ranks",
    "values_right": "The values are right on every rank.",
    "bytes_sent": "Each rank sent {seen} (counted).",
    "bytes_sent_by_rank": "The ranks sent {seen} B (counted).",
    "bytes_on_wire": "All ranks together sent {seen} (wire).",
    "collectives_called": "Each rank calls {calls}.",
    "printed": "Rank {rank} printed: {text}",
    "bytes_needed": "A good program sends {optimum}.",
    "ended": "It did not come to its end:",
    # guesses
    "guess": "Guess before you see it",
    "guess_in": "in {unit}",
    "guess_misfit": "Your guess, {given}, is not one number: write it bare, such as 1.5.",
    "guess_timed": "{factor} times what was timed. Another run gives another time: neither right nor wrong.",
    "guess_row": "your guess",
    "formula_row": "formula",
    "counted_row": "counted",
    "wire_row": "wire",
    "measured_row": "measured",
    "timed_row": "timed",
    "no_guess": "no guess",
    "noted": "Noted: {guess}. The run will tell.",
    "guess_right": "Right.",
    "guess_close": "Close: {factor} times the right number.",
    "guess_off": "{factor} times the right number.",
    "guess_fits": "{factor} times the right number. That fits this mistake: {mistake}.",
    "guess_fits_many": "{factor} times the right number. With {ranks} ranks that fits more than one mistake: "
    "{mistakes}. Other numbers of ranks would tell them apart.",
    "guess_sign": "A number above 0 was asked for.",
    # the mistakes behind a wrong guess
    "mistake_both": "sent and received bytes were added",
    "mistake_half": "one half is missing: after the reduce-scatter comes the all-gather",
    "mistake_total": "that is all ranks together, not one of them",
    "mistake_shard": "D is the whole tensor, not one rank's share of it",
    "mistake_own": "a rank's own part stays where it is: p-1 of p chunks travel, not all p",
    "mistake_round": "that is one round of the p-1",
    "mistake_chunk": "divided by p-1: D is cut into p chunks, not p-1",
    "mistake_uncut": "the whole tensor in each round: only one chunk of p travels",
    "mistake_whole": "that is D itself, the whole tensor",
    "mistake_decimal": "that is the number in {other}, not in {unit}",
    "mistake_binary": "{unit} was taken for {other}",
    "mistake_bits": "that is the number of bits",
    "mistake_elements": "that counts elements: a float32 has 4 bytes",
    "mistake_thousand": "one unit too small was used (a factor of 1024)",
    "mistake_thousandth": "one unit too large was used (a factor of 1024)",
    # quiz
    "quiz": "Quiz",
    "question": "Question {number} of {count}",
    "check_answer": "Check",
    "answers": "Answers, and why",
    "right_choice": "right",
    "wrong_choice": "wrong",
    "read_again": "Read again: {place}.",
    "choose_first": "Choose an answer first.",
    # progress
    "progress": "Progress",
    "progress_off": "Progress is not kept (MINDLAB_PROGRESS=off).",
    "progress_bulk": "Progress is not kept in a bulk run.",
    "progress_at": "Kept in {path}. MINDLAB_PROGRESS=off keeps nothing, MINDLAB_PROGRESS=path keeps it "
    "elsewhere.",
    "progress_damaged": "The file could not be read. It was moved to {path} and a new one was begun.",
    "progress_unwritable": "It could not be written: {why}",
    "tries": "tries",
    "hints": "hints",
    "state": "state",
    "task": "task",
    "solution_seen": "solution seen",
}

_TABLES: dict[str, dict[str, str]] = {"en": _EN, "zh": {}}
_TEXTS: dict[str, dict[str, str]] = {"zh": {}}
"""Language -> English text of a lesson -> its translation."""


def choose(language: str | None = None) -> str:
    """The language to speak, "en" or "zh". Raises ValueError on any other."""
    wanted = language or os.environ.get("MINDLAB_LANGUAGE") or "en"
    if wanted not in _TABLES:
        raise ValueError(f"language {wanted!r}: choose {' or '.join(_TABLES)}")
    return wanted


def say(key: str, *, language: str | None = None, **values: Any) -> str:
    """One phrase, its {names} filled in."""
    phrase = _TABLES[choose(language)].get(key, _EN[key])
    return phrase.format(**values) if values else phrase


def translated(text: str, language: str | None = None) -> str:
    """A lesson's text in the language, where it has been translated; else the English."""
    return _TEXTS.get(choose(language), {}).get(text, text)


def trial_words(trial: Trial) -> str:
    """ "4 ranks with 16,800 elements", "4 ranks, sequence 10, heads 8, bfloat16"."""
    if not trial.sizes:
        return say("trial", ranks=trial.ranks, numel=f"{trial.numel:,}")
    dtype = [trial.dtype] if trial.dtype != "float32" else []
    sizes = ", ".join([*(f"{name} {size:,}" for name, size in trial.sizes.items()), *dtype])
    return say("sized", ranks=trial.ranks, sizes=sizes)


def ranks_named(ranks: list[int]) -> str:
    """ "rank 2", "ranks 0 and 2", "ranks 0, 1 and 2"."""
    if len(ranks) == 1:
        return say("one_rank", rank=ranks[0])
    return say("some_ranks", ranks=", ".join(map(str, ranks[:-1])), last=ranks[-1])
