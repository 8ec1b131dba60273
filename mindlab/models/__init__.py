"""The small models that chapters share: on one card first, in plain torch.

    layers    the layers of a transformer, which the strategies split
    moe       a mixture of experts, and the decoder with such layers
    decoder   a language model, and generation with a cache of keys and values
    tokens    text to tokens and back
    latent    multi-latent attention, whose cache is one short latent a token
    digits    a diffusion transformer that draws digits, and its sampling with guidance
    vae       an image autoencoder, and the photograph that it knows
    video     a tiny video decoder, causal in time, with weights drawn
    weights   what they were trained to

`python -m mindlab.models.train` trains them again (train_digits, train_text, train_vae,
training).
"""
