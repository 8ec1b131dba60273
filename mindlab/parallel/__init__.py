"""One way to split a model a file: what each rank holds, computes and sends.

    attention   attention that also gives the log-sum-exp of its scores
    kernels     the ways to compute it on one device, and which of them is used
    merge       merging partial attention by its log-sum-exp
    shards      cutting a sequence into one shard a rank, and joining the shards
    tensor      all tensor-parallel layers: of linear, heads and vocabulary, and MLP and block
    sameness    whether all ranks hold the same tensors
    sequence    norms and residuals on a shard of the sequence, between tensor-parallel layers
    norms       norms of tokens whose features lie on several ranks
    ring        keys and values travel round a ring, results are merged by their log-sum-exp
    expert      the experts of a mixture on different ranks; tokens travel to them (routes: who goes where)
    cfg         the two predictions of guidance on two groups of ranks, or in one batch
    pipeline    stages of a model on the ranks, micro-batches and tokens going through (stages, hops)
    replicas    whole models that serve other requests, and the policies that route them
    ulysses     all-to-all from a shard of the sequence to a shard of the heads, and back
    hybrid      Ulysses on one axis of a mesh, the ring on the other
    mesh        ranks on named axes (torch's DeviceMesh), and which piece of a sequence lies where
    decode      one query on every rank, keys and values on one each, merged by their log-sum-exp
    cache       keys and values dealt to ranks by position, each token on one of them
    relayout    from the shards of a prefill to those of a cache
    generation  a decoder that writes text from a sharded cache
    latent      the same for multi-latent attention
    tiles       a picture decoded tile by tile, exactly (receptive, reach: how far its layers look)
    blending    tiles that overlap and are blended: cheaper, not exact

Each function is ordinary code on torch.distributed: it runs in `ml.launch` and under torchrun alike.
Tensors of attention are (batch, sequence, heads, head_dim).
"""
