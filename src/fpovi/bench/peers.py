# SPDX-License-Identifier: Apache-2.0
"""The same problems solved by other libraries, each imported only when it is asked for.

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

from fpovi.bench.ours import LEARNING_RATE, optimiser
from fpovi.bench.repeated import Run, UnavailableError, repeated
from fpovi.bench.settings import Problem, Setting, problem
from fpovi.inference.particles import init_particles
from fpovi.inference.score import log_density, weighted_log_likelihood
from fpovi.types import Batch, PyTree


def peer(module: str, install: str) -> Any:
    """A library that need not be there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnavailableError(f"not installed: pip install {install}") from error


def log_posterior(parts: Problem, particle: tuple[PyTree, PyTree], rows: Batch) -> Array:
    """Of one network and its noise, up to a constant: what all weight-space contestants climb."""
    theta, params = particle
    outputs, _ = parts.network.apply(theta, (), rows.x, True)
    one = jax.tree.map(lambda leaf: leaf[None], params)
    fit, _ = weighted_log_likelihood(parts.likelihood, one, parts.likelihood.canonical(outputs)[None], rows)
    return fit + parts.network.log_prior(theta) + log_density(parts.likelihood, params)


def starting_particles(parts: Problem, n: int) -> tuple[PyTree, PyTree]:
    """n networks and noises."""
    theta, _ = init_particles(jax.random.key(0), parts.network, n)
    return theta, jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *leaf.shape)), parts.likelihood.init())


def blackjax_svgd(setting: Setting) -> Run:
    """``blackjax.svgd`` with its own kernel and median heuristic."""
    blackjax, parts = peer("blackjax", "blackjax"), problem(setting)
    needs_company(setting)
    algorithm = blackjax.svgd(jax.grad(partial(log_posterior, parts)), optimiser())

    def step(i: Array, state: PyTree, rows: Batch) -> PyTree:
        return algorithm.step(state, rows=rows)

    state = algorithm.init(starting_particles(parts, setting.n), {"length_scale": jnp.ones(())})
    return repeated(step, state, parts.everywhere)


def numpyro_stein_vi(setting: Setting) -> Run:
    """``numpyro.contrib.einstein.SteinVI`` with point masses, which is SVGD."""
    numpyro = peer("numpyro", "numpyro")
    needs_company(setting)
    einstein = import_module("numpyro.contrib.einstein")
    guides = import_module("numpyro.infer.autoguide")
    parts = problem(setting)
    model = partial(numpyro_model, setting)
    stein = einstein.SteinVI(
        model,
        guides.AutoDelta(model),
        numpyro.optim.Adam(LEARNING_RATE),
        einstein.RBFKernel(),
        num_stein_particles=setting.n,
    )
    rows = parts.everywhere
    state = stein.init(jax.random.key(0), rows.x, rows.y)

    def step(i: Array, state: PyTree, rows: Batch) -> PyTree:
        return stein.update(state, rows.x, rows.y)[0]

    return repeated(step, state, rows)


def numpyro_model(setting: Setting, x: Array, y: Array) -> None:
    """The network and its noise as a NumPyro model."""
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
    """``pyro.infer.SVGD``, eager as Pyro is."""
    torch, pyro = peer("torch", "torch==2.13.0"), peer("pyro", "pyro-ppl")
    needs_company(setting)
    import_module("pyro.optim")
    rows = problem(setting).everywhere
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
    """The network and its noise as a Pyro model that takes particles on a leading axis."""
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
    """f-SVGD with fresh moment-matched draws, as one writes it in PyTorch; eager, or by ``torch.compile``."""
    peer("torch", "torch==2.13.0")
    if setting.classes:
        raise UnavailableError("written for regression only")
    from fpovi.bench.torch_step import TorchFunctionSVGD

    return TorchFunctionSVGD(setting, problem(setting).labelled).runner(compiled)


def needs_company(setting: Setting) -> None:
    """Their median is of the distances between different particles."""
    if setting.n < 2:
        raise UnavailableError("its median heuristic needs two particles")
