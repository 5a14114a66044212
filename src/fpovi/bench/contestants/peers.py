# SPDX-License-Identifier: Apache-2.0
"""The same steps by other libraries, each imported only when it is asked for.

In weight space all have the prior, likelihood, number of particles and rows of ``weight:svgd``, a Gaussian kernel
with the median heuristic and Adam. They differ in conventions that cost nothing: whether the median counts the
diagonal, log n or log(n + 1).
"""

from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fpovi.baselines import optimisation
from fpovi.bench.contestants.ours import LEARNING_RATE, optimiser
from fpovi.bench.settings import Setting, Workload, make_workload
from fpovi.bench.timing import Run, UnavailableError, compile_run
from fpovi.inference.particles import init_particles
from fpovi.types import Batch, PyTree


def import_peer(module: str, install: str) -> Any:
    """Return a library that need not be installed; raise an ``UnavailableError`` that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnavailableError(f"not installed: pip install {install}") from error


def log_posterior(parts: Workload, particle: tuple[PyTree, PyTree], rows: Batch) -> Array:
    """Return the log-posterior of one network and its noise up to a constant, which all in weight space maximise."""
    return optimisation.log_posterior(parts.network, parts.likelihood, particle, rows)[0]


def starting_particles(parts: Workload, n: int) -> tuple[PyTree, PyTree]:
    """Return the n networks and noises that all start from."""
    theta, _ = init_particles(jax.random.key(0), parts.network, n)
    return theta, jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *leaf.shape)), parts.likelihood.init())


def blackjax_svgd(setting: Setting) -> Run:
    """Return a run of ``blackjax.svgd`` with its own kernel and median heuristic."""
    blackjax, parts = import_peer("blackjax", "blackjax"), make_workload(setting)
    check_particles(setting)
    algorithm = blackjax.svgd(jax.grad(partial(log_posterior, parts)), optimiser())

    def step(i: Array, state: PyTree, rows: Batch) -> PyTree:
        return algorithm.step(state, rows=rows)

    state = algorithm.init(starting_particles(parts, setting.n), {"length_scale": jnp.ones(())})
    return compile_run(step, state, parts.all_rows)


def numpyro_stein_vi(setting: Setting) -> Run:
    """Return a run of ``numpyro.contrib.einstein.SteinVI`` with point masses, which is SVGD."""
    numpyro = import_peer("numpyro", "numpyro")
    check_particles(setting)
    einstein = import_module("numpyro.contrib.einstein")
    guides = import_module("numpyro.infer.autoguide")
    parts = make_workload(setting)
    model = partial(numpyro_model, setting)
    stein = einstein.SteinVI(
        model,
        guides.AutoDelta(model),
        numpyro.optim.Adam(LEARNING_RATE),
        einstein.RBFKernel(),
        num_stein_particles=setting.n,
    )
    rows = parts.all_rows
    state = stein.init(jax.random.key(0), rows.x, rows.y)

    def step(i: Array, state: PyTree, rows: Batch) -> PyTree:
        return stein.update(state, rows.x, rows.y)[0]

    return compile_run(step, state, rows)


def numpyro_model(setting: Setting, x: Array, y: Array) -> None:
    """Describe the network and its noise as a NumPyro model."""
    numpyro = import_module("numpyro")
    dist = numpyro.distributions
    for layer, (n_in, n_out) in enumerate(zip(setting.sizes[:-1], setting.sizes[1:], strict=True)):
        scale = jnp.full((n_in, n_out), n_in**-0.5)
        weight = numpyro.sample(f"weight_{layer}", dist.Normal(0.0, scale).to_event(2))
        bias = numpyro.sample(f"bias_{layer}", dist.Normal(0.0, jnp.ones(n_out)).to_event(1))
        x = (jax.nn.relu(x) if layer else x) @ weight + bias
    if setting.classes:
        numpyro.sample("y", dist.Categorical(logits=x).to_event(1), obs=y[:, 0])
        return
    noise = numpyro.sample("noise", dist.InverseGamma(1.0, 0.1))
    numpyro.sample("y", dist.Normal(x, noise).to_event(2), obs=y)


def pyro_svgd(setting: Setting) -> Run:
    """Return a run of ``pyro.infer.SVGD``, eager as Pyro is."""
    torch, pyro = import_peer("torch", "torch==2.13.0"), import_peer("pyro", "pyro-ppl")
    check_particles(setting)
    import_module("pyro.optim")
    rows = make_workload(setting).all_rows
    x, y = (torch.from_dlpack(jnp.asarray(a)).clone() for a in (rows.x, rows.y))
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    inference = pyro.infer.SVGD(
        partial(pyro_model, setting),
        pyro.infer.RBFSteinKernel(),
        pyro.optim.Adam({"lr": LEARNING_RATE}),
        num_particles=setting.n,
        max_plate_nesting=0,
    )

    def run(steps: int) -> None:
        for _ in range(steps):
            inference.step(x, y)

    return run


def pyro_model(setting: Setting, x: Any, y: Any) -> None:
    """Describe the network and its noise as a Pyro model that takes particles on a leading axis."""
    torch, pyro = import_module("torch"), import_module("pyro")
    dist = pyro.distributions
    for layer, (n_in, n_out) in enumerate(zip(setting.sizes[:-1], setting.sizes[1:], strict=True)):
        scale = torch.full((n_in, n_out), n_in**-0.5)
        weight = pyro.sample(f"weight_{layer}", dist.Normal(torch.zeros(n_in, n_out), scale).to_event(2))
        bias = pyro.sample(f"bias_{layer}", dist.Normal(torch.zeros(n_out), torch.ones(n_out)).to_event(1))
        x = (torch.relu(x) if layer else x) @ weight + bias.unsqueeze(-2)
    if setting.classes:
        pyro.sample("y", dist.Categorical(logits=x).to_event(1), obs=y[:, 0].long())
        return
    noise = pyro.sample("noise", dist.InverseGamma(torch.tensor(1.0), torch.tensor(0.1)))
    pyro.sample("y", dist.Normal(x, noise[..., None, None]).to_event(2), obs=y)


def torch_f_svgd(setting: Setting, compiled: bool) -> Run:
    """Return a run of f-SVGD with fresh moment-matched draws written in PyTorch; eager, or by ``torch.compile``."""
    import_peer("torch", "torch==2.13.0")
    if setting.depth and not compiled:
        return _torch_resnets(setting, "one_by_one")
    if setting.classes:
        raise UnavailableError("written for regression only")
    from fpovi.bench.contestants.torch_step import TorchFunctionSVGD

    return TorchFunctionSVGD(setting, make_workload(setting).labelled).runner(compiled)


def torch_vmap(setting: Setting) -> Run:
    """Return a run of f-SVGD of residual networks in PyTorch, all in one pass by ``torch.vmap``."""
    import_peer("torch", "torch==2.13.0")
    if not setting.depth:
        raise UnavailableError("written for residual networks only: peer:torch-eager has perceptrons in one pass")
    return _torch_resnets(setting, "vectorised")


def _torch_resnets(setting: Setting, over: str) -> Run:
    from fpovi.bench.contestants import torch_resnet

    if setting.extra:
        raise UnavailableError("written for labelled points only")
    rows = make_workload(setting).labelled
    return torch_resnet.TorchResNetSVGD(setting, rows, getattr(torch_resnet, over)).runner()


def check_particles(setting: Setting) -> None:
    """Raise an ``UnavailableError`` for one particle, as their median is of distances between different ones.

    And for a residual network: none of them carries statistics of a batch.
    """
    if setting.depth:
        raise UnavailableError("written for perceptrons only")
    if setting.n < 2:
        raise UnavailableError("its median heuristic needs two particles")
