# SPDX-License-Identifier: Apache-2.0
from . import acquisition as acquisition
from . import augmentation as augmentation
from . import bandits as bandits
from . import calibration as calibration
from . import flows as flows
from . import inference as inference
from . import kernels as kernels
from . import likelihoods as likelihoods
from . import measurement as measurement
from . import networks as networks
from . import priors as priors
from . import robustness as robustness
from . import selection as selection
from ._fast.compile_cache import keep_programs as keep_programs
from .estimators import BNNClassifier as BNNClassifier
from .estimators import BNNRegressor as BNNRegressor
from .estimators import export_inputs as export_inputs
from .estimators import load as load
from .inference import Run as Run
from .inference import exact as exact
from .inference import function_space as function_space
from .inference import gauss_newton as gauss_newton
from .inference import make_batch as make_batch
from .inference import run as run
from .inference import weight_space as weight_space
from .predictive import Predictive as Predictive
from .predictive import predict as predict
from .types import Algorithm as Algorithm
from .types import Batch as Batch
from .types import DivergedError as DivergedError
from .types import Info as Info
from .types import Network as Network
from .types import ParametrisedAlgorithm as ParametrisedAlgorithm
from .types import Scales as Scales
from .types import State as State

__version__: str
