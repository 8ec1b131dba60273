"""The quiz of chapter 11. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import flops, volume
from mindlab.teach.lesson import Choice, Question, Quiz

_PHOTO = (52, 80)


def _mean(grid: tuple[int, int], halo: int = 6, size: tuple[int, int] = _PHOTO) -> float:
    """Bytes that a rank sends on average for its halo, 4 channels of float32."""
    return float(volume.halo_exchange(size, grid, halo, channels=4, itemsize=4))


def _again(grid: tuple[int, int]) -> float:
    """How much more a rank computes because of a halo of 6."""
    return round(float(flops.recomputed(_PHOTO, grid, 6)), 2)


QUIZ = Quiz(
    name="11",
    title="Chapter 11: VAE tiles",
    questions=(
        Question(
            "A decoder: one convolution of 3 x 3, up-sampling by 2, four such convolutions, up-sampling by "
            "2, four such convolutions. How many latent pixels of halo does a tile need?",
            answer=lambda: -(-(4 * 1 + 2 * 4 + 4) // 4),
            read="3, How far a pixel reaches",
            choices=(
                Choice(9, "Nine convolutions, but eight of them look at finer pixels."),
                Choice(1, "The others look less far, but they add up."),
                Choice(4, "1 + 4/2 + 4/4."),
                Choice(16, "That is in pixels of the picture."),
            ),
        ),
        Question(
            "A latent of 52 x 80 pixels, 4 channels, float32, halo 6, four tiles one below the other. What "
            "does a rank send, on average?",
            answer=lambda: _mean((4, 1)),
            unit="B",
            read="4, Bytes of a halo",
            choices=(
                Choice(_mean((4, 1)), "Six borders between tiles and sides, each 6 rows of 80 pixels, by 4."),
                Choice(
                    6 * 80 * 4 * 4 * 2, "That is a rank in the middle. The first and the last have one side."
                ),
                Choice(6 * 80 * 4 * 4 * 16, "A halo travels before the up-sampling."),
                Choice(_mean((2, 2)), "That is in blocks of 2 x 2."),
            ),
        ),
        Question(
            "The picture becomes twice as high and twice as wide; still four tiles one below the other. How "
            "many times the bytes for the halos?",
            answer=lambda: _mean((4, 1), size=(104, 160)) / _mean((4, 1)),
            read="4, Bytes of a halo",
            choices=(
                Choice(4.0, "That is how the work grows."),
                Choice(2.0, "A border is twice as long; the halo is as wide as before."),
                Choice(1.0, "That is true of the norms' statistics."),
            ),
        ),
        Question(
            "The same latent, halo 6, in blocks of 2 x 2 in place of four rows. How much more than its own "
            "tile does a rank decode?",
            answer=lambda: _again((2, 2)),
            read="4, Rows or blocks",
            choices=(
                Choice(_again((4, 1)), "That is in rows: 6 to 12 rows of halo for 13."),
                Choice(_again((2, 2)), "26 x 40 pixels and two sides of 6."),
                Choice(0.0, "With a halo for each layer it would be so."),
            ),
        ),
        Question(
            "A decoder with GroupNorms, its statistics taken tile by tile. Which halo makes it exact?",
            read="3, What no halo mends",
            choices=(
                Choice("That of the receptive field.", "Then lines are gone, tones are not.", holds=False),
                Choice("Twice that.", "Tones change a little, from picture to picture.", holds=False),
                Choice(
                    "None that is smaller than the picture.",
                    "A GroupNorm reads every pixel.",
                    holds=lambda: _mean((4, 1), 52) > _mean((4, 1), 13),
                ),
            ),
        ),
        Question(
            "7 GroupNorms of 8 groups, 4 ranks. What does a rank send so that all of them have the whole "
            "picture's statistics?",
            answer=lambda: volume.norm_statistics(7, 8, 4),
            unit="B",
            read="4, Bytes of the statistics",
            choices=(
                Choice(volume.norm_statistics(7, 8, 4), "100 bytes to 3 others, for each of 7 norms."),
                Choice(volume.norm_statistics(7, 8, 2), "There are three others."),
                Choice(volume.norm_statistics(1, 8, 4), "That is one norm."),
                Choice(7 * 4 * 208 * 320 * 4, "No pixel is sent: only means, variances and a count."),
            ),
        ),
        Question(
            "A layer of the decoder is an attention over all pixels. What does `receptive_field` say?",
            read="8, What the model does not know",
            choices=(
                Choice("The whole picture's size.", "It gives no number there.", holds=False),
                Choice(
                    "It refuses: no halo is enough, the keys and values of all ranks are needed.",
                    "Ring attention or a gather, for that layer.",
                    holds=True,
                ),
                Choice("6: attention has no kernel.", "It reads every pixel.", holds=False),
            ),
        ),
    ),
)
