"""Ways to run a cell's function on p processes: ours, and every peer that is installed.

A recipe is code for a notebook. `ready` is run before the clock starts (imports only), `call` is the cell
that a person writes: it must leave the list of values by rank in `values`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

WORK = """
import torch, torch.distributed as dist
def work():
    x = torch.ones(1 << 18)
    for _ in range(3):
        dist.all_reduce(x)
    return x
"""
"""Three all_reduce of 1 MiB, and 1 MiB back from each rank."""

_OWN_GROUP = """
def joined(rank, ranks, folder):
    import os, torch, torch.distributed as dist
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    if not dist.is_initialized():
        store = dist.FileStore(folder + "/store", ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
"""


@dataclass(frozen=True)
class Peer:
    """One way to launch, as code for cells. `{ranks}` is filled in."""

    name: str
    module: str
    """The import that tells whether it is installed."""
    ready: str
    call: str
    end: str = ""

    @property
    def installed(self) -> bool:
        """Whether it can be measured here."""
        return importlib.util.find_spec(self.module) is not None


MINDLAB = Peer("mindlab", "mindlab", "import mindlab as ml", "values = ml.launch(work, ranks={ranks}).values")

PEERS = (
    Peer(
        "accelerate",
        "accelerate",
        "import os, tempfile, io, contextlib\n"
        "os.environ.update(ACCELERATE_USE_CPU='true', GLOO_SOCKET_IFNAME='lo', OMP_NUM_THREADS='1')\n"
        "from accelerate import notebook_launcher\n"
        "folder = tempfile.mkdtemp()\n"
        "def saved(folder):\n"
        "    import torch, torch.distributed as dist\n"
        "    if not dist.is_initialized(): dist.init_process_group('gloo')\n"
        "    torch.save(work(), folder + '/%d' % dist.get_rank())\n",
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    notebook_launcher(saved, (folder,), num_processes={ranks})\n"
        "values = [torch.load(folder + '/%d' % r) for r in range({ranks})]",
    ),
    Peer(
        "ipyparallel",
        "ipyparallel",
        "import ipyparallel as ipp, tempfile, os\nos.environ['IPP_NONINTERACTIVE'] = '1'\ncluster = None\n"
        + _OWN_GROUP,
        "if cluster is None:\n"
        "    cluster = ipp.Cluster(n={ranks}, log_level=40)\n"
        "    client = cluster.start_and_connect_sync(activate=False)\n"
        "    view, folder = client[:], tempfile.mkdtemp()\n"
        "    view.block = True\n"
        "    def once(r, p, f): joined(r, p, f)\n"
        "    view.push(dict(joined=joined))\n"
        "    waits = [client[r].apply_async(joined, r, {ranks}, folder) for r in range({ranks})]\n"
        "    [w.get(60) for w in waits]\n"
        "    view.execute('import torch, torch.distributed as dist')\n"
        "values = view.apply_sync(work)",
        "cluster.stop_cluster_sync()",
    ),
    Peer(
        "Ray",
        "ray",
        "import ray, tempfile\nactors = None\n" + _OWN_GROUP,
        "if actors is None:\n"
        "    ray.init(num_cpus={ranks}, include_dashboard=False, log_to_driver=False,\n"
        "             configure_logging=False, _node_ip_address='127.0.0.1')\n"
        "    class Actor:\n"
        "        def __init__(self, r, p, f): joined(r, p, f)\n"
        "        def run(self, fn): return fn()\n"
        "    folder = tempfile.mkdtemp()\n"
        "    made = ray.remote(Actor).options(num_cpus=1)\n"
        "    actors = [made.remote(r, {ranks}, folder) for r in range({ranks})]\n"
        "values = ray.get([a.run.remote(work) for a in actors])",
        "ray.shutdown()",
    ),
    Peer(
        "torchmonarch",
        "monarch",
        "import tempfile\nfrom monarch.actor import Actor, current_rank, endpoint, this_host\nactors = None\n"
        + _OWN_GROUP
        + "class Runner(Actor):\n"
        "    def __init__(self, p, f): joined(current_rank().rank, p, f)\n"
        "    @endpoint\n"
        "    async def run(self, fn): return fn()\n",
        "if actors is None:\n"
        "    procs = this_host().spawn_procs(per_host={{'gpus': {ranks}}})\n"
        "    actors = procs.spawn('runner', Runner, {ranks}, tempfile.mkdtemp())\n"
        "values = [v for _, v in actors.run.call(work).get()]",
        "procs.stop().get()",
    ),
    Peer(
        "nbdistributed",
        "nbdistributed",
        "import os\nos.environ.update(GLOO_SOCKET_IFNAME='lo', OMP_NUM_THREADS='1')\n"
        "%load_ext nbdistributed\nfrom IPython import get_ipython\nstarted = False",
        "if not started:\n"
        "    get_ipython().run_line_magic('dist_init', '-n {ranks}')\n"
        "    get_ipython().run_line_magic('dist_mode', '-d')\n"
        "    started = True\n"
        "text = WORK_TEXT + '\\nwork()'\n"
        "get_ipython().run_cell_magic('distributed', '', text)\n"
        "values = []",
        # Its own %dist_shutdown ends every process of the host whose command line looks like a worker.
        "import psutil\nfor child in psutil.Process().children(recursive=True): child.kill()",
    ),
    Peer(
        "torchrun (fresh)",
        "torch.distributed.run",
        "import subprocess, sys, tempfile, pathlib, os\n"
        "folder = tempfile.mkdtemp()\n"
        "script = pathlib.Path(folder, 'script.py')\n",
        "script.write_text(WORK_TEXT + '''\n"
        "import sys\n"
        "dist.init_process_group('gloo')\n"
        "torch.save(work(), sys.argv[1] + '/%d' % dist.get_rank())\n"
        "dist.destroy_process_group()\n"
        "''')\n"
        "env = {{**os.environ, 'GLOO_SOCKET_IFNAME': 'lo', 'OMP_NUM_THREADS': '1'}}\n"
        "command = [sys.executable, '-m', 'torch.distributed.run', '--standalone']\n"
        "command += ['--nproc_per_node={ranks}', str(script), folder]\n"
        "subprocess.run(command, check=True, env=env, capture_output=True, timeout=300)\n"
        "values = [torch.load(folder + '/%d' % r) for r in range({ranks})]",
    ),
)


def present() -> tuple[Peer, ...]:
    """Ours first, then every peer that is installed."""
    return (MINDLAB, *(peer for peer in PEERS if peer.installed))
