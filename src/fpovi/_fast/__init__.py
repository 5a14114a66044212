# SPDX-License-Identifier: Apache-2.0
"""Functions that stand for a plain line of JAX which a CPU runs more slowly; each names that line and when it is used.

Time of one step with the plain line in its place, over the time as it is: median and quartiles of 60 to 200 rounds by
turns, in CPU time of one core of a machine that was busy with other work. boston and kin8nm are the settings of
``fpovi bench``, with f-SVGD and the nngp prior or with 40 prior networks a step; the last two columns are the phases of
``BNNRegressor().fit`` on 500 × 10 numbers, whose warm-up has more steps than its flow.

============  =================  ====================  =================  =================  =================
plain line    boston             boston, 40 networks   kin8nm             fit: flow          fit: warm-up
============  =================  ====================  =================  =================  =================
``affine``    1.14 (1.05, 1.23)  1.08 (1.03, 1.18)     1.04 (0.94, 1.11)  1.06 (1.00, 1.13)  1.10 (1.01, 1.18)
``median``    1.19 (1.11, 1.32)  1.14 (1.06, 1.25)     1.06 (0.96, 1.19)  1.06 (1.00, 1.13)  not used
``normals``   1.27 (1.14, 1.38)  1.53 (1.40, 1.64)     0.99 (0.88, 1.14)  1.01 (0.94, 1.09)  not used
``unrolled``  1.06 (1.01, 1.11)  1.03 (0.99, 1.09)     1.05 (0.96, 1.12)  1.07 (0.98, 1.14)  not used
all four      1.63 (1.51, 1.74)  1.66 (1.55, 1.76)     1.16 (1.06, 1.26)  1.24 (1.13, 1.32)  1.12 (1.06, 1.22)
============  =================  ====================  =================  =================  =================

The first such fit of a process takes 2.3 times as long without :func:`~fpovi._fast.compile_cache.keep_programs`: 35
seconds of CPU time there for 15 (medians of four and three processes by turns). ``make_room`` gains no time and takes 5
milliseconds a fit: without it a process ends after some 35 fits of different networks, as each maps 1,870 areas of
memory, and Linux allows 65,530.
"""
