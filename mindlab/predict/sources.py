"""The papers and pages that the closed forms come from, each written once."""

PATARASUK_YUAN = (
    "Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, "
    "J. Parallel Distrib. Comput. 69 (2009)"
)
THAKUR = (
    "Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, "
    "Int. J. High Perform. Comput. Appl. 19 (2005)"
)
CHAN = (
    "Chan, Heimlich, Purkayastha & van de Geijn, Collective communication: theory, practice, and experience, "
    "Concurrency Computat.: Pract. Exper. 19 (2007)"
)
BRUCK = (
    "Bruck, Ho, Kipnis, Upfal & Weathersby, Efficient algorithms for all-to-all communications in multiport "
    "message-passing systems, IEEE Trans. Parallel Distrib. Syst. 8 (1997)"
)
HCCL_MESH = "HCCL user guide, collective algorithms, Mesh (hicann/hccl 09300b7, coll_algo_intro/Mesh.md)"
HCCL_RHD = "HCCL user guide, collective algorithms, RHD (hicann/hccl 09300b7, coll_algo_intro/RHD.md)"
HCCL_RING = "HCCL user guide, collective algorithms, Ring (hicann/hccl 09300b7, coll_algo_intro/Ring.md)"
HCCL_NHR = "HCCL user guide, collective algorithms, NHR (hicann/hccl 09300b7, coll_algo_intro/NHR.md)"
PYTORCH_TUTORIAL = (
    "PyTorch tutorial, Writing Distributed Applications with PyTorch, Our Own Ring-Allreduce (dist_tuto.rst)"
)
COUNTED_BY_HAND = "counted: who sends what, message by message"
GLOO = "gloo as PyTorch 2.13 ships it, read off the kernel's socket counters (TCP_INFO), 2 to 8 ranks"
SHOEYBI = (
    "Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism "
    "(2019)"
)
KORTHIKANTI = "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022)"
LIU = "Liu, Zaharia & Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite Context (2023)"
BRANDON = "Brandon et al., Striped Attention: Faster Ring Attention for Causal Transformers (2023)"
JACOBS = (
    "Jacobs et al., DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence "
    "Transformer Models (2023)"
)
FANG = "Fang & Zhao, USP: A Unified Sequence Parallelism Approach for Long Context Generative AI (2024)"
GSHARD = (
    "Lepikhin et al., GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding (2020)"
)
DEEPSEEK_V3 = "DeepSeek-AI, DeepSeek-V3 Technical Report (2024), sections 2.1.2 and 3.2"
HUANG = (
    "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism (2019), "
    "section 2.3"
)
NARAYANAN = (
    "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM "
    "(2021), section 2.2"
)
SHYAM = (
    "Shyam et al., Tree Attention: Topology-aware Decoding for Long-Context Attention on GPU clusters (2024)"
)
DEEPSEEK_V2 = (
    "DeepSeek-AI, DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model (2024), "
    "section 2.1"
)
CHAN_MOMENTS = (
    "Chan, Golub & LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979)"
)
WILLIAMS = (
    "Williams, Waterman & Patterson, Roofline: An Insightful Visual Performance Model for Multicore "
    "Architectures, Commun. ACM 52 (2009)"
)
